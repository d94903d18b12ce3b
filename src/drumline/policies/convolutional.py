"""Policies on images in NumPy: two networks with convolutions, and virtual batch normalisation.

A convolution is a matrix product of patches and weights. On one image and one core this took half
the time of torch's own (benchmarks/results/es_pixels.csv), and workers need no torch.

Parameters are flat, layer by layer: weights `[inputs, outputs]` row by row (a convolution's inputs
are ordered by row, column and channel of the patch, as images of the layer before are by row and
column), then what is added to a layer's outputs: with virtual batch normalisation a scale and a
shift per output, else a bias. The last layer always has a bias.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from drumline.policies.heads import action_function
from drumline.policies.mlp import aligned_zeros
from drumline.policies.spec import PolicySpec

EPSILON = 1e-3
"""Added to a variance before its root is taken, as the published implementation does."""
_CHUNK = 8
"""Frames of the reference batch whose patches are in memory at once."""
_CELL = 4
"""Stride of every first layer, whose kernel is two cells wide."""
_BYTE = np.float32(1.0 / 255.0)
_CHANNELS = (1, 2, 3, 4)
"""Sizes of a last axis by which images with the channels last are known, in messages alone."""


class Convolution(NamedTuple):
    """Outputs, kernel and stride of a convolution without padding."""

    outputs: int
    kernel: int
    stride: int


@dataclass(frozen=True)
class Layers:
    """Convolutions and the size of the layer behind them; ReLU throughout."""

    convolutions: tuple[Convolution, ...]
    hidden: int


NETWORKS = {
    "a3c-cnn": Layers((Convolution(16, 8, 4), Convolution(32, 4, 2)), 256),
    "nature-cnn": Layers(
        (Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3, 1)), 512
    ),
}
"""The two networks of A3C (Mnih et al. 2016): that of Mnih et al. 2013, and of Mnih et al. 2015."""


class LayerShape(NamedTuple):
    """One layer: rows of its patches for one image, its inputs and outputs."""

    rows: int
    inputs: int
    outputs: int


def layer_shapes(spec: PolicySpec) -> list[LayerShape]:
    """Return the shapes of all layers; ValueError for images that are too small."""
    network = NETWORKS[spec.convolutions]
    channels, height, width = spec.image
    shapes: list[LayerShape] = []
    for outputs, kernel, stride in network.convolutions:
        inputs = kernel * kernel * channels
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        if min(height, width) < 1:
            raise ValueError(_does_not_fit(spec))
        shapes.append(LayerShape(height * width, inputs, outputs))
        channels = outputs
    shapes.append(LayerShape(1, height * width * channels, network.hidden))
    shapes.append(LayerShape(1, network.hidden, spec.head.output_size))
    return shapes


def _does_not_fit(spec: PolicySpec) -> str:
    if spec.image[2] in _CHANNELS and min(spec.image[:2]) > max(_CHANNELS):
        return (
            f"--policy {spec.convolutions} takes images [channels, height, width], and these are "
            f"{list(spec.image)}, with the channels last: have the environment move that axis to "
            "the front"
        )
    return f"--policy {spec.convolutions} needs larger images than {list(spec.image)}"


def parameter_count(spec: PolicySpec) -> int:
    """Return P."""
    return sum(shape.inputs * shape.outputs + n for shape, n in _with_additions(spec))


def tensor_shapes(spec: PolicySpec) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of weights `[inputs, outputs]` and of what is added, in their order."""
    layers = _with_additions(spec)
    return tuple(s for shape, n in layers for s in ((shape.inputs, shape.outputs), (n,)))


def initial_vector(spec: PolicySpec, rng: np.random.Generator) -> np.ndarray:
    """Columns of norm 1 (hidden) and 0.01 (last layer), scales 1, shifts and biases 0."""
    parts: list[np.ndarray] = []
    shapes = _with_additions(spec)
    for number, (shape, additions) in enumerate(shapes):
        drawn = rng.standard_normal((shape.inputs, shape.outputs))
        length = 0.01 if number == len(shapes) - 1 else 1.0
        weights = drawn * (length / np.sqrt(np.square(drawn).sum(axis=0)))
        added = np.zeros(additions, np.float32)
        if additions > shape.outputs:
            added[: shape.outputs] = 1.0
        parts += [weights.astype(np.float32).ravel(), added]
    return np.concatenate(parts)


def _with_additions(spec: PolicySpec) -> list[tuple[LayerShape, int]]:
    """Return each layer with the number of parameters behind its weights."""
    shapes = layer_shapes(spec)
    per_output = [2 if spec.virtual_batch else 1] * (len(shapes) - 1) + [1]
    return [(s, n * s.outputs) for s, n in zip(shapes, per_output, strict=True)]


class FoldedLayer(NamedTuple):
    """A layer as it is applied to images: its normalisation is in weights and bias."""

    weights: np.ndarray
    """`[inputs, outputs]`; those of the first layer are for bytes."""
    bias: np.ndarray
    """`[outputs]`."""


class ConvolutionalPolicy:
    """A policy on one image `[C, H, W]` of bytes at a time; every buffer is made once.

    With virtual batch normalisation (Salimans et al. 2016; 2017, §2.2) a layer's outputs are
    normalised by mean and variance of the same outputs on the reference batch, under the same
    parameters, then scaled and shifted. Mean and variance follow from the parameters alone, so an
    image's outputs do, too. They are computed once for each vector of parameters (`loaded`), and
    folded into the weights.
    """

    def __init__(self, spec: PolicySpec):
        shapes = layer_shapes(spec)
        self.parameter_count = parameter_count(spec)
        self.vector = aligned_zeros(self.parameter_count)
        self.to_action = action_function(spec.head)
        self._weights: list[np.ndarray] = []
        self._added: list[np.ndarray] = []
        start = 0
        for shape, additions in _with_additions(spec):
            size = shape.inputs * shape.outputs
            piece = self.vector[start : start + size]
            self._weights.append(piece.reshape(shape.inputs, shape.outputs))
            self._added.append(self.vector[start + size : start + size + additions])
            start += size + additions
        self._folded = [_empty_layer(shape) for shape in shapes]
        self._first = _FirstPatches(spec.image, shapes[0].rows)
        self._order = self._first.order(spec.image[0])
        self._outputs = [_matrix(shape.rows, shape.outputs) for shape in shapes]
        inner = NETWORKS[spec.convolutions].convolutions[1:]
        self._patches = [
            _Patches(image, layer.kernel, layer.stride)
            for image, layer in zip(_images(spec, self._outputs, 1), inner, strict=False)
        ]
        self._reference = _Reference(spec, shapes) if spec.virtual_batch else None

    def load_vector(self, parameters: np.ndarray) -> None:
        """Copy the parameters `[P]`."""
        self.vector[:] = parameters
        self.loaded()

    def load_moments(self, mean: np.ndarray, inverse_std: np.ndarray) -> None:
        """Refuse: images are divided by 255 and have no moments."""
        raise ValueError("a policy on images takes no observation moments")

    def load_reference(self, frames: np.ndarray) -> None:
        """Take the reference batch `[N, C, H, W]`, which may not change afterwards."""
        assert self._reference is not None, "only virtual batch normalisation has a reference batch"
        self._reference.frames = frames

    def loaded(self) -> None:
        """Fold the normalisation of the present parameters into the weights of `output`."""
        for number, (folded, weights, added) in enumerate(
            zip(self._folded, self._weights, self._added, strict=True)
        ):
            count = len(folded.bias)
            scale = np.ones(count, np.float32)
            if self._reference is None or number == len(self._folded) - 1:
                folded.bias[:] = added
            else:
                outputs, mean, variance = self._reference.through(number, weights)
                scale[:] = added[:count] / np.sqrt(variance + np.float32(EPSILON))
                folded.bias[:] = added[count:] - mean * scale
                _normalize(outputs, scale, folded.bias)
            if number == 0:
                weights = weights[self._order]
                scale *= _BYTE
            np.multiply(weights, scale, out=folded.weights)

    def layers(self) -> list[FoldedLayer]:
        """Return the layers that `output` applies; the first takes bytes, ordered as a patch is."""
        first = FoldedLayer(np.empty_like(self._folded[0].weights), self._folded[0].bias.copy())
        first.weights[self._order] = self._folded[0].weights
        rest = [FoldedLayer(layer.weights.copy(), layer.bias.copy()) for layer in self._folded[1:]]
        return [first, *rest]

    def output(self, observation: np.ndarray) -> np.ndarray:
        """Return the raw output `[O]`, valid until the next call."""
        inputs = self._first.of(observation)
        last = len(self._folded) - 1
        for number, (layer, outputs) in enumerate(zip(self._folded, self._outputs, strict=True)):
            np.dot(inputs, layer.weights, out=outputs)
            np.add(outputs, layer.bias, out=outputs)
            if number < last:
                np.maximum(outputs, np.float32(0.0), out=outputs)
            if number < len(self._patches):
                inputs = self._patches[number].taken()
            elif number < last:
                inputs = outputs.reshape(1, -1)
        return self._outputs[-1][0]

    def act(self, observation: np.ndarray) -> object:
        """Return the noiseless action."""
        return self.to_action(self.output(observation), None)


def _normalize(outputs: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> None:
    """Apply max(0, scale · y + bias) to rows `[N, outputs]` in place."""
    np.multiply(outputs, scale, out=outputs)
    np.add(outputs, bias, out=outputs)
    np.maximum(outputs, np.float32(0.0), out=outputs)


def _matrix(rows: int, columns: int) -> np.ndarray:
    return aligned_zeros(rows * columns).reshape(rows, columns)


def _empty_layer(shape: LayerShape) -> FoldedLayer:
    return FoldedLayer(_matrix(shape.inputs, shape.outputs), aligned_zeros(shape.outputs))


def _images(spec: PolicySpec, outputs: list[np.ndarray], count: int) -> list[np.ndarray]:
    """Return the outputs of the convolutions as images `[count, H, W, C]`, views of them."""
    convolutions = NETWORKS[spec.convolutions].convolutions
    return [
        outputs[number].reshape(count, *_places(spec.image, convolutions[: number + 1]), -1)
        for number in range(len(convolutions))
    ]


def _places(image: tuple[int, ...], convolutions: tuple[Convolution, ...]) -> tuple[int, int]:
    """Return height and width of the image behind some convolutions."""
    _, height, width = image
    for _, kernel, stride in convolutions:
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    return height, width


class _FirstPatches:
    """Patches of the first layer from bytes.

    Its kernel is two cells of 4 × 4 bytes wide, and its stride one. An image is therefore sorted
    into cells, four bytes at a time; a patch is two runs of two cells each, whose bytes lie side by
    side.
    """

    def __init__(self, image: tuple[int, ...], rows: int):
        channels, height, width = image
        down, across = height // _CELL, width // _CELL
        self._whole = (slice(None), slice(0, down * _CELL), slice(0, across * _CELL))
        self._fits = width % _CELL == 0 and height % _CELL == 0
        self._split = (channels, down, _CELL, across)
        self._sorted = np.zeros((down, across, channels, _CELL), np.uint32)
        cell = channels * _CELL * _CELL
        self._bytes = self._sorted.view(np.uint8).reshape(down, across, cell)
        self._cells = aligned_zeros(down * across * cell).reshape(down, across, cell)
        row, column, _ = self._cells.strides
        shape = (down - 1, across - 1, 2, 2 * cell)
        self._views = np.lib.stride_tricks.as_strided(
            self._cells, shape, (row, column, row, self._cells.itemsize), writeable=False
        )
        self._patches = aligned_zeros(rows * 4 * cell).reshape(shape)
        self._rows = self._patches.reshape(rows, 4 * cell)

    @staticmethod
    def order(channels: int) -> np.ndarray:
        """Return the row of the weights for each value of a patch, by cells."""
        width = 2 * _CELL
        rows = np.arange(width * width * channels).reshape(2, _CELL, 2, _CELL, channels)
        return rows.transpose(0, 2, 4, 1, 3).ravel()

    def of(self, image: np.ndarray) -> np.ndarray:
        """Return the patches `[rows, inputs]` of an image of bytes, valid until the next call."""
        if not self._fits:
            image = image[self._whole]
        words = np.ascontiguousarray(image).view(np.uint32).reshape(self._split)
        self._sorted[:] = words.transpose(1, 3, 0, 2)
        self._cells[:] = self._bytes
        self._patches[:] = self._views
        return self._rows


class _Patches:
    """Patches of images `[N, H, W, C]` that lie in a buffer of the layer before."""

    def __init__(
        self, images: np.ndarray, kernel: int, stride: int, memory: np.ndarray | None = None
    ):
        """`memory`: room for the patches, which others may use in turn."""
        count, height, width, channels = images.shape
        down, across = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        image, row, column, _ = images.strides
        shape = (count, down, across, kernel, kernel * channels)
        strides = (image, row * stride, column * stride, row, images.itemsize)
        self._views = np.lib.stride_tricks.as_strided(images, shape, strides, writeable=False)
        inputs = kernel * kernel * channels
        if memory is None:
            memory = aligned_zeros(count * down * across * inputs)
        self._patches = memory[: count * down * across * inputs].reshape(shape)
        self._rows = self._patches.reshape(count * down * across, inputs)

    def taken(self) -> np.ndarray:
        """Return the patches `[N · rows, inputs]` of the images as they are now."""
        self._patches[:] = self._views
        return self._rows


class _Reference:
    """The reference batch on its way through the layers; memory for all frames' outputs."""

    def __init__(self, spec: PolicySpec, shapes: list[LayerShape]):
        count, layers = spec.virtual_batch, NETWORKS[spec.convolutions].convolutions
        self.frames = np.zeros((count, *spec.image), np.uint8)
        self._first = _FirstPatches(spec.image, shapes[0].rows)
        self._order = self._first.order(spec.image[0])
        self._outputs = [_matrix(count * shape.rows, shape.outputs) for shape in shapes[:-1]]
        self._shapes = shapes
        inner = shapes[1 : len(layers)]
        memory = aligned_zeros(max(_CHUNK * shape.rows * shape.inputs for shape in inner))
        self._patches = [
            [
                _Patches(images[first : first + _CHUNK], layer.kernel, layer.stride, memory)
                for first in range(0, count, _CHUNK)
            ]
            for images, layer in zip(_images(spec, self._outputs, count), layers[1:], strict=False)
        ]

    def through(
        self, number: int, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a layer's outputs `[rows, outputs]` on the batch, and their mean and variance.

        The caller normalises them in place: they are the inputs of the next layer.
        """
        outputs, rows = self._outputs[number], self._shapes[number].rows
        if number == 0:
            sorted_weights = weights[self._order] * _BYTE
            for place, frame in enumerate(self.frames):
                at = slice(place * rows, (place + 1) * rows)
                np.dot(self._first.of(frame), sorted_weights, out=outputs[at])
        elif number <= len(self._patches):
            first = 0
            for chunk in self._patches[number - 1]:
                patches = chunk.taken()
                np.dot(patches, weights, out=outputs[first : first + len(patches)])
                first += len(patches)
        else:
            before = self._outputs[number - 1].reshape(len(self.frames), -1)
            np.dot(before, weights, out=outputs)
        mean = outputs.mean(axis=0, dtype=np.float64)
        variance = np.square(outputs - mean.astype(np.float32)).mean(axis=0, dtype=np.float64)
        return outputs, mean.astype(np.float32), variance.astype(np.float32)
