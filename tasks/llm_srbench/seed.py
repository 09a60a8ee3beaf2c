"""A formula that is linear in its inputs."""


def equation(x, v, params):
    """The output for arrays of inputs, with free parameters."""
    return params[0] * x + params[1] * v + params[2]
