"""Where the search starts: the mean of each sample and its neighbours."""

WINDOW = 1


def smooth(samples):
    smoothed = []
    for place in range(len(samples)):
        near = samples[max(0, place - WINDOW) : place + WINDOW + 1]
        smoothed.append(sum(near) / len(near))
    return smoothed
