"""Write the larger models of ``benchmarks/models``: ``python benchmarks/describe.py``. The small ones are kept by hand.

resnet18 and vgg16 are PyTorch's layers one by one (convolutions of the ResNet without bias, batch normalization with
its epsilon and momentum there), so that a peer runs the same work. vgg_small, vgg and resnet18_adam are what
NNTrainer's own programs describe, for the comparison with its planned memory.
"""

from __future__ import annotations

from pathlib import Path

MODELS = Path(__file__).parent / "models"
TORCH_NORMALIZATION = {"epsilon": "1e-5", "momentum": "0.9"}
VGG_NORMALIZATION = {"epsilon": "1e-6", "momentum": "0.9"}


class Description:
    """An INI in the making."""

    def __init__(self, comment: str, *, optimizer: str, rate: str, batch: int, shape: str) -> None:
        self.lines = [f"# {comment}", "# Written by benchmarks/describe.py."]
        self.section("Model", type="NeuralNetwork", loss="cross", batch_size=batch, epochs=1)
        self.section("Optimizer", type=optimizer, learning_rate=rate)
        self.section("input", type="input", input_shape=shape)
        self.last = "input"

    def section(self, section: str, **keys: object) -> None:
        self.lines += ["", f"[{section}]", *(f"{key} = {value}" for key, value in keys.items())]

    def layer(self, name: str, kind: str, after: str | None = None, **keys: object) -> str:
        self.section(name, type=kind, input_layers=after or self.last, **keys)
        self.last = name
        return name

    def convolution(self, name: str, filters: int, after: str | None = None, **keys: object) -> str:
        defaults: dict[str, object] = {"filters": filters, "kernel_size": "3,3", "padding": "1,1"}
        return self.layer(name, "conv2d", after, **(defaults | keys))

    def write(self, name: str) -> None:
        (MODELS / f"{name}.ini").write_text("\n".join(self.lines) + "\n", encoding="utf-8")


def resnet18() -> Description:
    """PyTorch's: normalization after each convolution, the addition, relu."""
    made = Description(
        "ResNet-18 for 3x32x32 images and 100 classes, as PyTorch has it.",
        optimizer="sgd", rate="0.01", batch=32, shape="3:32:32",
    )  # fmt: skip

    def normalized(name: str, filters: int, after: str | None = None, activation: str = "", **keys: object) -> str:
        made.convolution(f"{name}_conv", filters, after, disable_bias="true", **keys)
        extra = {"activation": activation} if activation else {}
        return made.layer(f"{name}_bn", "batch_normalization", **TORCH_NORMALIZATION, **extra)

    normalized("stem", 64, activation="relu")
    width = 64
    for number, (filters, stride) in enumerate(_blocks(), 1):
        block, source = f"block{number}", made.last
        normalized(f"{block}_1", filters, source, "relu", stride=f"{stride},{stride}")
        main = normalized(f"{block}_2", filters)
        skip = source
        if stride != 1 or filters != width:
            skip = normalized(
                f"{block}_skip", filters, source, kernel_size="1,1", padding="0,0", stride=f"{stride},{stride}"
            )
        made.layer(f"{block}_sum", "addition", f"{main},{skip}", activation="relu")
        width = filters
    _classify(made)
    return made


def resnet18_adam() -> Description:
    """NNTrainer's: convolutions with bias, the second normalization after the addition, none in the short cut."""
    made = Description(
        "ResNet-18 for 3x32x32 images and 100 classes, as NNTrainer's application has it.",
        optimizer="adam", rate="0.001", batch=32, shape="3:32:32",
    )  # fmt: skip
    made.convolution("conv0", 64)
    made.layer("first_bn_relu", "batch_normalization", activation="relu")
    width = 64
    for number, (filters, stride) in enumerate(_blocks()):
        block, source = f"conv{number // 2 + 1}_{number % 2}", made.last
        made.convolution(f"{block}_a1", filters, source, stride=f"{stride},{stride}")
        made.layer(f"{block}_a2", "batch_normalization", activation="relu")
        main, skip = made.convolution(f"{block}_a3", filters), source
        if stride != 1 or filters != width:
            skip = made.convolution(
                f"{block}_b1", filters, source, kernel_size="1,1", padding="0,0", stride=f"{stride},{stride}"
            )
        made.layer(f"{block}_c1", "addition", f"{main},{skip}")
        made.layer(block, "batch_normalization", activation="relu")
        width = filters
    _classify(made)
    return made


def _blocks() -> list[tuple[int, int]]:
    return [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]


def _classify(made: Description) -> None:
    made.layer("pool", "pooling2d", pooling="average", pool_size="4,4")
    made.layer("flatten", "flatten")
    made.layer("classes", "fully_connected", unit=100, activation="softmax")


def vgg16() -> Description:
    """PyTorch's with batch normalization after every convolution."""
    made = Description(
        "VGG-16 for 3x32x32 images and 100 classes, batch normalization after every convolution.",
        optimizer="sgd", rate="0.01", batch=32, shape="3:32:32",
    )  # fmt: skip
    for block, (filters, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for number in range(1, count + 1):
            made.convolution(f"conv{block}_{number}", filters)
            made.layer(f"bn{block}_{number}", "batch_normalization", activation="relu", **TORCH_NORMALIZATION)
        made.layer(f"pool{block}", "pooling2d", pooling="max", pool_size="2,2", stride="2,2")
    made.layer("flatten", "flatten")
    made.layer("fc1", "fully_connected", unit=256, activation="relu")
    made.layer("fc2", "fully_connected", unit=256, activation="relu")
    made.layer("classes", "fully_connected", unit=100, activation="softmax")
    return made


def nntrainer_vgg(
    comment: str, blocks: tuple[tuple[int, int], ...], unit: int, *, rate: str, hidden: int = 2
) -> Description:
    """NNTrainer's: one normalization after the last convolution and one after each hidden layer."""
    made = Description(comment, optimizer="adam", rate=rate, batch=32, shape="3:32:32")
    total, number = sum(count for _, count in blocks), 0
    for block, (filters, count) in enumerate(blocks, 1):
        for _ in range(count):
            number += 1
            last = number == total
            made.convolution(f"conv{number}", filters, **({} if last else {"activation": "relu"}))
            if last:
                made.layer("bn1", "batch_normalization", activation="relu", **VGG_NORMALIZATION)
        made.layer(f"pool{block}", "pooling2d", pooling="max", pool_size="2,2", stride="2,2")
    made.layer("flatten", "flatten")
    for layer in range(1, hidden + 1):
        made.layer(f"fc{layer}", "fully_connected", unit=unit)
        made.layer(f"bn{layer + 1}", "batch_normalization", activation="relu", **VGG_NORMALIZATION)
    made.layer("classes", "fully_connected", unit=100, activation="softmax")
    return made


def main() -> None:
    MODELS.mkdir(exist_ok=True)
    resnet18().write("resnet18")
    resnet18_adam().write("resnet18_adam")
    vgg16().write("vgg16")
    nntrainer_vgg(
        "NNTrainer's vgg_small.", ((16, 2), (32, 2), (64, 3), (128, 3), (128, 3)), 128, rate="0.01"
    ).write("vgg_small")  # fmt: skip
    nntrainer_vgg(
        "NNTrainer's VGG.", ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 256, rate="0.0001", hidden=1
    ).write("vgg")  # fmt: skip


if __name__ == "__main__":
    main()
