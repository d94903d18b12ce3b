"""Recorded work gives the bits of the same work run at once, and follows what its tensors hold."""

import gc

import numpy as np
import pytest
import torch
from device_examples import DEVICES, skip_if_absent

from drumline import seeding
from drumline.functional.recorded_work import RecordedCall, RecordedWork, finish, host_buffer
from drumline.functional.torch_devices import device_of


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    found = device_of(skip_if_absent(request.param))
    assert found is not None
    return found


class Layer:
    """tanh(x W) and the gradient of its sum by W, on fixed tensors."""

    def __init__(self, device: torch.device):
        drawn = seeding.generator(3, "layer").standard_normal((64, 32), dtype=np.float32)
        self.weights = torch.from_numpy(drawn).to(device).requires_grad_()
        self.given = torch.zeros(16, 64, device=device)
        self.found = torch.zeros(16, 32, device=device)
        self.gradient = torch.zeros(64, 32, device=device)
        self._output: torch.Tensor | None = None

    def forward(self) -> None:
        self._output = torch.tanh(self.given @ self.weights)
        self.found.copy_(self._output.detach())

    def backward(self) -> None:
        assert self._output is not None
        (gradient,) = torch.autograd.grad(self._output.sum(), [self.weights])
        self.gradient.copy_(gradient)


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().numpy().tobytes()


def test_stages_follow_their_inputs_and_have_the_bits_of_work_that_is_not_recorded(
    device: torch.device,
):
    own, other = Layer(device), Layer(device)
    work = RecordedWork(device, own.forward, own.backward)
    for number in range(4):
        for layer in (own, other):
            layer.given.copy_(torch.full((16, 64), 0.01 * number) + torch.eye(16, 64))
            with torch.no_grad():
                layer.weights.mul_(1.5)
        work(0)
        work(1)
        other.forward()
        other.backward()
        assert bits(own.found) == bits(other.found)
        assert bits(own.gradient) == bits(other.gradient)
    assert work.recorded == (device.type == "cuda")


def test_a_call_with_the_same_objects_sees_what_they_hold_now(device: torch.device):
    calls: list[int] = []

    def doubled(tensor: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return tensor * 2.0

    call = RecordedCall(doubled, device)
    first, second = (torch.full((3,), number, device=device) for number in (1.0, 5.0))
    for tensor, value in ((first, 1.0), (first, 2.0), (first, 3.0), (second, 4.0), (first, 6.0)):
        tensor.fill_(value)
        assert call(tensor).tolist() == [2.0 * value] * 3
    # on a GPU: as it is, to set up and to record, a replay, and each change as it is again
    assert len(calls) == 5


@pytest.mark.gpu
def test_work_that_no_graph_can_hold_is_run_each_time_instead():
    device = device_of(skip_if_absent("cuda"))
    assert device is not None
    given, found = torch.ones(4, device=device), torch.zeros(4, device=device)

    def waits() -> None:
        found.copy_(given * float(given.sum()))

    work = RecordedWork(device, waits)
    for number in range(1, 4):
        given.fill_(number)
        work()
        finish(device)
        assert found.tolist() == [4.0 * number * number] * 4
    assert not work.recorded
    assert (torch.ones(2, device=device) + 1).tolist() == [2.0, 2.0]


@pytest.mark.gpu
def test_recording_leaves_the_garbage_collector_as_it_was():
    device = device_of(skip_if_absent("cuda"))
    assert device is not None
    given = torch.zeros(4, device=device)

    def fill() -> None:
        given.fill_(2.0)

    for collects in (True, False):
        try:
            gc.enable() if collects else gc.disable()
            work = RecordedWork(device, fill)
            work()
            assert work.recorded
            assert gc.isenabled() == collects
        finally:
            gc.enable()


def test_a_buffer_of_the_host_has_the_shape_and_kind_that_was_asked_for(device: torch.device):
    made = host_buffer((2, 3), torch.uint8, device)
    assert made.shape == (2, 3)
    assert made.dtype == torch.uint8
    assert made.device.type == "cpu"
    assert made.is_pinned() == (device.type == "cuda")
