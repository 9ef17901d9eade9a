"""PyTorch as one of the measured: the same six models, modules named as the sections of the INI files.

Options choose eager, channels-last and compiled execution, and a float64 run for comparing losses.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parent))
from serve import serve

Loader = Callable[[str], torch.Tensor]  # "layer:weight" to the array that the product has under this name


class Named(nn.Module):
    """A model whose modules are filed under the names of INI sections."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict()

    def load(self, get: Loader) -> None:
        """Take over the product's weights."""
        with torch.no_grad():
            for name, module in self.parts.items():
                for parameter, value in _weights(name, module, get):
                    parameter.copy_(value.reshape(parameter.shape))


def _weights(name: str, module: nn.Module, get: Loader) -> list[tuple[torch.Tensor, torch.Tensor]]:
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    if isinstance(module, nn.Linear):
        found = [(module.weight, _matrix(get(f"{name}:weight")).T), (module.bias, get(f"{name}:bias"))]
    elif isinstance(module, nn.Conv2d):
        found = [(module.weight, get(f"{name}:filter"))]
        if module.bias is not None:
            found.append((module.bias, get(f"{name}:bias")))
    elif isinstance(module, (nn.BatchNorm2d, nn.LayerNorm)):
        found = [(module.weight, get(f"{name}:gamma")), (module.bias, get(f"{name}:beta"))]
    elif isinstance(module, nn.LSTM):
        for mine, theirs in (("ih", "ih"), ("hh", "hh")):
            found.append((getattr(module, f"weight_{mine}_l0"), _matrix(get(f"{name}:weight_{theirs}")).T))
            found.append((getattr(module, f"bias_{mine}_l0"), get(f"{name}:bias_{theirs}")))
    elif isinstance(module, Attention):
        joined = [(_matrix(get(f"{name}:{part}_fc_weight")).T, get(f"{name}:{part}_fc_bias")) for part in module.PARTS]
        found = [
            (module.qkv.weight, torch.cat([weight for weight, _ in joined])),
            (module.qkv.bias, torch.cat([bias.reshape(-1) for _, bias in joined])),
            (module.project.weight, _matrix(get(f"{name}:fc_weight")).T),
            (module.project.bias, get(f"{name}:fc_bias")),
        ]
    return found


def _matrix(array: torch.Tensor) -> torch.Tensor:
    return array.reshape(array.shape[-2:])


class Mlp(Named):
    def __init__(self, width: int) -> None:
        super().__init__()
        for name, (a, b) in {"fc1": (784, 256 * width), "fc2": (256 * width, 128 * width)}.items():
            self.parts[name] = nn.Linear(a, b)
        self.parts["classes"] = nn.Linear(128 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = self.parts
        return p["classes"](functional.relu(p["fc2"](functional.relu(p["fc1"](x.flatten(1))))))


class Lenet(Named):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.parts["conv1"] = nn.Conv2d(1, 6 * width, 5)
        self.parts["conv2"] = nn.Conv2d(6 * width, 12 * width, 5)
        self.parts["classes"] = nn.Linear(192 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for name in ("conv1", "conv2"):
            x = functional.avg_pool2d(torch.sigmoid(self.parts[name](x)), 2)
        return self.parts["classes"](x.flatten(1))


class Lstm(Named):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.parts["lstm"] = nn.LSTM(64, 128 * width, batch_first=True)
        self.parts["classes"] = nn.Linear(128 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts["classes"](self.parts["lstm"](x.flatten(0, 1))[0][:, -1])


class Attention(nn.Module):
    PARTS = ("query", "key", "value")

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, steps, width = x.shape
        q, k, v = self.qkv(x).view(n, steps, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        made = functional.scaled_dot_product_attention(q, k, v)
        return self.project(made.transpose(1, 2).reshape(n, steps, width))


class Transformer(Named):
    def __init__(self, width: int) -> None:
        super().__init__()
        p = self.parts
        p["norm1"], p["norm2"] = nn.LayerNorm(64), nn.LayerNorm(64)
        p["attention"] = Attention(64, 4)
        p["hidden"], p["back"] = nn.Linear(64, 256 * width), nn.Linear(256 * width, 64)
        p["classes"] = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = self.parts
        x = x.flatten(0, 1)
        x = x + p["attention"](p["norm1"](x))
        x = x + p["back"](functional.relu(p["hidden"](p["norm2"](x))))
        return p["classes"](x.mean(1))


class Resnet18(Named):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.blocks: list[tuple[str, bool]] = []
        wide = 64 * width
        self._normalized("stem", 3, wide, 3, 1)
        for number, (filters, stride) in enumerate(
            ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)), 1
        ):
            name, filters = f"block{number}", filters * width
            self._normalized(f"{name}_1", wide, filters, 3, stride)
            self._normalized(f"{name}_2", filters, filters, 3, 1)
            skip = stride != 1 or wide != filters
            if skip:
                self._normalized(f"{name}_skip", wide, filters, 1, stride)
            self.blocks.append((name, skip))
            wide = filters
        self.parts["classes"] = nn.Linear(wide, 100)

    def _normalized(self, name: str, a: int, b: int, kernel: int, stride: int) -> None:
        self.parts[f"{name}_conv"] = nn.Conv2d(a, b, kernel, stride, kernel // 2, bias=False)
        self.parts[f"{name}_bn"] = nn.BatchNorm2d(b)

    def _run(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return self.parts[f"{name}_bn"](self.parts[f"{name}_conv"](x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self._run("stem", x), inplace=True)
        for name, skip in self.blocks:
            made = self._run(f"{name}_2", functional.relu(self._run(f"{name}_1", x), inplace=True))
            x = functional.relu(made + (self._run(f"{name}_skip", x) if skip else x), inplace=True)
        return self.parts["classes"](x.mean((2, 3)))


class Vgg16(Named):
    GROUPS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))

    def __init__(self, width: int) -> None:
        super().__init__()
        before = 3
        for group, (filters, count) in enumerate(self.GROUPS, 1):
            for place in range(1, count + 1):
                self.parts[f"conv{group}_{place}"] = nn.Conv2d(before, filters * width, 3, padding=1)
                self.parts[f"bn{group}_{place}"] = nn.BatchNorm2d(filters * width)
                before = filters * width
        self.parts["fc1"], self.parts["fc2"] = nn.Linear(before, 256 * width), nn.Linear(256 * width, 256 * width)
        self.parts["classes"] = nn.Linear(256 * width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = self.parts
        for group, (_, count) in enumerate(self.GROUPS, 1):
            for place in range(1, count + 1):
                x = functional.relu(p[f"bn{group}_{place}"](p[f"conv{group}_{place}"](x)), inplace=True)
            x = functional.max_pool2d(x, 2)
        x = functional.relu(p["fc1"](x.flatten(1)), inplace=True)
        return p["classes"](functional.relu(p["fc2"](x), inplace=True))


MODELS: dict[str, type[Named]] = {
    "mlp": Mlp, "lenet": Lenet, "lstm": Lstm, "transformer": Transformer, "resnet18": Resnet18, "vgg16": Vgg16,
}  # fmt: skip
OPTIMIZERS: dict[str, Callable[[Named], torch.optim.Optimizer]] = {
    "lenet": lambda net: torch.optim.Adam(net.parameters(), lr=1e-4),
    "lstm": lambda net: torch.optim.Adam(net.parameters(), lr=1e-3),
    "transformer": lambda net: torch.optim.Adam(net.parameters(), lr=1e-3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, choices=MODELS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--born", type=float, default=0.0)
    parser.add_argument("--losses", type=int, default=0)
    parser.add_argument("--width", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--predict", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    dtype = torch.float64 if given.double else torch.float32
    # explicit types: `to` would not change buffers that are integers
    net = MODELS[given.model](given.width).to(dtype)
    with np.load(given.data) as data:
        x, y = torch.from_numpy(data["x"]).to(dtype), torch.from_numpy(data["y"])
        if given.losses:
            net.load(lambda name: torch.from_numpy(data[name]))
    if given.channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    forward = torch.compile(net) if given.compile else net
    facts = {"version": torch.__version__}
    if given.predict:
        net.eval()

        def infer() -> None:
            with torch.inference_mode():
                forward(x)

        serve(infer, born=given.born, **facts)
        return
    optimizer = OPTIMIZERS.get(given.model, lambda net: torch.optim.SGD(net.parameters(), lr=0.01))(net)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    serve(step, born=given.born, losses=given.losses, **facts)


if __name__ == "__main__":
    main()
