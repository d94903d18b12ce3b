"""The order in which a single stream acts, remembers and learns."""

from drumline.schedules.single_stream import SingleStreamPlan, single_stream


class Diary:
    """Learner and stream in one, which write down what they are asked to do."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.learned = 0
        self.version = 0

    @property
    def actor(self) -> int:
        return self.version

    def begin(self, block: int, steps: int = 0) -> None:
        self.lines.append(f"begin {block}")

    def learn(self, watermark: int) -> bool:
        self.lines.append(f"learn {watermark}")
        self.learned += 1
        if self.learned % 2:
            return False
        self.version += 1
        return True

    def metrics(self) -> dict[str, float]:
        return {"learned": float(self.learned)}

    def follow(self, parameters: int) -> None:
        self.lines.append(f"follow {parameters}")

    def step(self, random: bool) -> str:
        self.lines.append("random step" if random else "step")
        return "transition"

    def remember(self, transition: str) -> None:
        self.lines.append("remember")


PLAN = SingleStreamPlan(block=3, blocks=2, random_steps=2)


def test_a_stream_steps_remembers_and_learns_in_turn():
    diary = Diary()
    blocks = list(single_stream(diary, diary, diary.remember, PLAN, first=0))
    expected = ["follow 0", "begin 0", "begin 0", *["random step", "remember"] * 2]
    expected += ["step", "remember", "learn 3", "begin 1", "begin 1"]
    expected += ["step", "remember", "learn 4", "follow 1", "step", "remember", "learn 5"]
    expected += ["step", "remember", "learn 6", "follow 2"]
    assert diary.lines == expected
    assert [block.update for block in blocks] == [1, 2]
    assert [block.metrics["learned"] for block in blocks] == [1.0, 4.0]
    assert all(block.ended - block.began >= block.environment_seconds for block in blocks)


def test_a_stream_goes_on_from_a_block():
    diary, pauses = Diary(), []
    blocks = single_stream(
        diary, diary, diary.remember, PLAN, first=1, between=lambda: pauses.append(1)
    )
    assert [block.update for block in blocks] == [2]
    assert diary.lines[:5] == ["follow 0", "begin 1", "begin 1", "step", "remember"]
    assert len(pauses) == 3


def test_nothing_is_done_after_the_last_block():
    diary = Diary()
    assert list(single_stream(diary, diary, diary.remember, PLAN, first=2)) == []
    assert diary.lines == ["follow 0"]
