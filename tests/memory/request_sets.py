"""Sets of requests to plan: random ones, and ones with the shape of a training step."""

from __future__ import annotations

import math
import random

from nntrainer_py.memory.planner import Request

STEPS = 200
_MEAN_LIFE = 20


def random_set(rng: random.Random) -> list[Request]:
    """50 to 150 buffers of 64 bytes to 8 MB (log-uniform), with geometric lives in 200 steps, 1 in 10 throughout."""
    requests = []
    for number in range(rng.randint(50, 150)):
        size = round(math.exp(rng.uniform(math.log(64), math.log(8 << 20))))
        if rng.random() < 0.1:
            first, last = 0, STEPS - 1
        else:
            first = rng.randrange(STEPS)
            life = 1 + int(math.log(1 - rng.random()) / math.log(1 - 1 / _MEAN_LIFE))
            last = min(first + life, STEPS) - 1
        requests.append(Request(size, first, last, f"buffer{number}"))
    return requests


def convolution_sizes(layers: int, rng: random.Random) -> list[int]:
    """Bytes of the activations of a convolutional net that halves its resolution four times."""
    batch, channels, side = rng.choice([8, 32]), rng.choice([8, 16, 32]), rng.choice([28, 32, 64])
    sizes = []
    for layer in range(layers):
        if layer and layer % max(layers // 5, 1) == 0 and side > 2:
            side //= 2
            channels *= rng.choice([1, 2])
        sizes.append(4 * batch * channels * side * side)
    return sizes


def recurrent_sizes(layers: int, rng: random.Random) -> list[int]:
    """Bytes of the states and gates of an unrolled recurrent net."""
    state = 4 * rng.choice([8, 32]) * rng.choice([64, 128, 200])
    return [state * rng.choice([1, 1, 4]) for _ in range(layers)]


def dense_sizes(layers: int, rng: random.Random) -> list[int]:
    """Bytes of the activations of a multi-layer perceptron."""
    batch = rng.choice([8, 32, 64])
    return [4 * batch * rng.randint(10, 1000) for _ in range(layers)]


def hourglass_sizes(layers: int, rng: random.Random) -> list[int]:
    """Bytes of the activations of an encoder and its mirrored decoder."""
    down = convolution_sizes(max(layers // 2, 1), rng)
    return down + down[::-1]


NETWORKS = {
    "convolution": convolution_sizes,
    "recurrent": recurrent_sizes,
    "dense": dense_sizes,
    "hourglass": hourglass_sizes,
}


def training_step(sizes: list[int], rng: random.Random, *, skips: bool = False) -> list[Request]:
    """A forward pass, then per layer from last to first gradient, derivative and update; scratch where drawn.

    An activation lives until its consumer's backward when drawn so (or, with ``skips``, until its mirror image's),
    otherwise only until it is consumed.
    """
    layers = len(sizes)
    backward = [layers + 3 * (layers - 1 - layer) for layer in range(layers)]
    requests = []
    for layer, size in enumerate(sizes):
        consumer = min(layer + 1, layers - 1)
        kept = rng.random() < 0.6
        last = backward[consumer] + rng.choice([0, 0, 1]) if kept else consumer
        if skips and layer < layers // 2:
            last = max(last, backward[layers - 1 - layer])
        weight = 4 * rng.choice([8, 64, 256, 1024, 36_864, 65_536, 589_824])
        requests.append(Request(size, layer, last, f"layer{layer}/output"))
        requests.append(
            Request(weight, backward[layer], backward[layer] + 2, f"layer{layer}/weight:gradient", weight_gradient=True)
        )
        if layer < layers - 1:
            requests.append(
                Request(size, backward[layer + 1] + 1, backward[layer] + 1, f"layer{layer}/output:gradient")
            )
        if rng.random() < 0.3:
            requests.append(Request(size // 32 + 4, layer, backward[layer], f"layer{layer}/mask"))
        for moment in (layer, backward[layer], backward[layer] + 1):
            if rng.random() < 0.5:
                scratch = rng.choice([1000, 100_000, size, 2 * size])
                requests.append(Request(scratch, moment, moment, f"layer{layer}/scratch"))
    return requests
