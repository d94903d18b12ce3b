"""The growing files of a run folder, written in the order of the calls."""

from collections.abc import Callable, Collection, Sequence
from types import ModuleType
from typing import Any

from drumline.runs.append_file import AppendFile
from drumline.runs.atomic_files import make_synced_directory
from drumline.runs.checkpoint import Checkpoint, write_checkpoint
from drumline.runs.fingerprints import chain_columns, chain_header, chain_start, next_row, row_line
from drumline.runs.folder import RunFolder
from drumline.runs.metrics import (
    EVALUATIONS_HEADER,
    episode_lines,
    episodes_header,
    evaluation_line,
    metrics_columns,
    metrics_line,
    read_columns,
)
from drumline.runs.segments import is_segment, remove_unneeded
from drumline.types import EvaluationRow, Metrics, NodeTraffic, State, UpdateRecord

INFO_HEADER = "update,name,mean"
"""Columns of info.csv: numbers that environments told at the ends of evaluated episodes."""
NODES_HEADER = ",".join(("update", "node", *(f"{kind}_bytes" for kind in NodeTraffic._fields[2:])))


class RunFiles:
    """Writer of rows into files, without threads; goes on from `resumed_from` if given."""

    def __init__(
        self,
        folder: RunFolder,
        *,
        tensorboard: bool,
        resumed_from: Checkpoint | None,
        probe: Callable[[str], None],
        checkpointed: Callable[[int], None] = lambda update: None,
    ):
        self._folder = folder
        self._tensorboard = tensorboard
        self._probe = probe
        self._checkpointed = checkpointed
        # Includes files that this session never opens: without TensorBoard its file must be kept.
        self._lengths = dict(resumed_from.lengths) if resumed_from else {}
        self._files: dict[str, AppendFile] = {}
        self._metrics_columns = read_columns(folder.metrics_csv)
        self._chain_columns = read_columns(folder.fingerprints_csv)[1:-1]
        self._events: ModuleType | None = None
        self.chained = resumed_from.chained if resumed_from else ""
        """Head of the hash chain."""
        self.last_checkpoint = resumed_from.update if resumed_from else None

    def update(self, record: UpdateRecord) -> None:
        """Write the rows of one update: metrics, episodes, fingerprint, TensorBoard."""
        if not self._metrics_columns:
            self._metrics_columns = metrics_columns(record.metrics)
        line = metrics_line(self._metrics_columns, record.update, record.metrics)
        self._csv("metrics.csv", ",".join(self._metrics_columns)).append(f"{line}\n".encode())
        if record.episodes:
            lines = episode_lines(record.episodes)
            self._csv("episodes.csv", episodes_header(record.episodes)).append(lines.encode())
        self._fingerprint(record)
        if self._tensorboard:
            steps = int(record.metrics["env_steps"])
            self._scalars(self._place(record.update, steps), record.metrics)

    def evaluation(self, row: EvaluationRow) -> None:
        """Write the row of one scheduled evaluation."""
        line = evaluation_line(row)
        self._csv("evaluations.csv", EVALUATIONS_HEADER).append(f"{line}\n".encode())
        if row.info:
            lines = "".join(f"{row.update},{name},{mean!r}\n" for name, mean in row.info)
            self._csv("info.csv", INFO_HEADER).append(lines.encode())
        if self._tensorboard:
            file, events = self._tensorboard_file()
            file.append(events.evaluation(self._place(row.update, row.env_steps), row))

    def nodes(self, rows: Sequence[NodeTraffic]) -> None:
        """Write the bytes that an update cost each node."""
        lines = "".join(f"{','.join(map(str, row))}\n" for row in rows)
        self._csv("nodes.csv", NODES_HEADER).append(lines.encode())

    def event(self, line: bytes) -> None:
        """Append a line to events.jsonl."""
        self._open("events.jsonl").append(line)

    def segment(self, name: str, data: bytes) -> None:
        """Append bytes to a segment."""
        make_synced_directory((self._folder.path / name).parent)
        self._open(name).append(data)

    def checkpoint(
        self, update: int, state: State, extra: dict[str, Any], segments: Collection[str]
    ) -> None:
        """Write a checkpoint that counts exactly the rows so far and these segments."""
        self._forget(segments)
        for file in self._files.values():
            file.sync()
        write_checkpoint(
            self._folder,
            update,
            state,
            self.lengths(),
            extra,
            chained=self.chained,
            best=self._folder.policy_tensors("best"),
            probe=self._probe,
        )
        self.last_checkpoint = update
        remove_unneeded(self._folder)
        self._checkpointed(update)

    def lengths(self) -> dict[str, int]:
        """Return the byte length of every append-only file, waiting rows included."""
        opened = {name: file.length for name, file in self._files.items()}
        return dict(sorted({**self._lengths, **opened}.items()))

    def flush(self) -> None:
        """Hand all waiting rows to the operating system."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Close without flushing."""
        for file in self._files.values():
            file.close()

    def _forget(self, segments: Collection[str]) -> None:
        """Stop counting segments that the run no longer needs."""
        for name in [name for name in self._files if is_segment(name) and name not in segments]:
            file = self._files.pop(name)
            file.flush()  # an older checkpoint may count on it
            file.close()
        for name in [name for name in self._lengths if is_segment(name) and name not in segments]:
            del self._lengths[name]

    def _fingerprint(self, record: UpdateRecord) -> None:
        if not self._chain_columns:
            self._chain_columns = chain_columns(record.published)
        columns = self._chain_columns
        previous = self.chained or chain_start(columns)
        row = next_row(previous, record.update, record.published, columns)
        self._csv("fingerprints.csv", chain_header(columns)).append(f"{row_line(row)}\n".encode())
        self.chained = row.chained

    def _scalars(self, step: int, metrics: Metrics) -> None:
        file, events = self._tensorboard_file()
        file.append(events.scalars(step, metrics))

    def _place(self, update: int, env_steps: int) -> int:
        """Return the place on TensorBoard's axis: env steps; in folders of 0.1, updates."""
        made_by = str(self._folder.document.get("drumline", ""))
        return update if made_by.startswith("0.1.") else env_steps

    def _tensorboard_file(self) -> tuple[AppendFile, ModuleType]:
        if self._events is None:
            # Imported here, because TensorBoard slows the start-up.
            from drumline.runs import tensorboard_events

            self._events = tensorboard_events
        file = self._open(self._folder.tensorboard_file.name)
        if file.length == 0:
            file.append(self._events.file_start())
        return file, self._events

    def _csv(self, name: str, header: str) -> AppendFile:
        file = self._files.get(name)
        if file is None:
            file = self._open(name)
            if file.length == 0:
                file.append(f"{header}\n".encode())
        return file

    def _open(self, name: str) -> AppendFile:
        if name not in self._files:
            self._files[name] = AppendFile(self._folder.path / name)
        return self._files[name]
