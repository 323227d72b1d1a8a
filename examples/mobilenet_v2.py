"""MobileNetV2: M. Sandler et al., "Inverted residuals and linear bottlenecks", 2018."""

from torch import Tensor, nn

from examples.seeded import seeded

STAGES = (
    # expansion, channels, blocks, stride: table 2
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return seeded(MobileNetV2, (1, 3, 224, 224), seed=2)


class InvertedResidual(nn.Module):
    def __init__(self, in_channels: int, channels: int, stride: int, expansion: int):
        super().__init__()
        hidden = in_channels * expansion
        expand = [] if expansion == 1 else [conv_bn_relu6(in_channels, hidden, 1)]
        self.body = nn.Sequential(
            *expand,
            conv_bn_relu6(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.is_residual = stride == 1 and in_channels == channels

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return x + y if self.is_residual else y


class MobileNetV2(nn.Module):
    def __init__(self, classes: int = 1000):
        super().__init__()
        layers: list[nn.Module] = [conv_bn_relu6(3, 32, 3, stride=2)]
        channels = 32
        for expansion, out_channels, blocks, stride in STAGES:
            for i in range(blocks):
                step = stride if i == 0 else 1
                layers.append(InvertedResidual(channels, out_channels, step, expansion))
                channels = out_channels
        self.features = nn.Sequential(*layers, conv_bn_relu6(channels, 1280, 1))
        self.classifier = nn.Linear(1280, classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.classifier(self.features(image).mean((2, 3)))


def conv_bn_relu6(
    in_channels: int, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    padding = kernel // 2
    return nn.Sequential(
        nn.Conv2d(
            in_channels, channels, kernel, stride, padding, groups=groups, bias=False
        ),
        nn.BatchNorm2d(channels),
        nn.ReLU6(inplace=True),
    )
