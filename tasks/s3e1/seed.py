"""House values of California districts, predicted from what the census says about them."""

import pandas as pd
from sklearn.linear_model import LinearRegression

TARGET = "MedHouseVal"


def train_and_predict(train_path, test_path):
    """One prediction for each row of the test file, in its order."""
    train = pd.read_csv(train_path)
    test = pd.read_csv(test_path)

    # Every column but the target is a feature.
    features = [column for column in train.columns if column != TARGET]

    model = LinearRegression()
    model.fit(train[features], train[TARGET])
    return model.predict(test[features])
