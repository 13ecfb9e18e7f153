"""Verdicts and metrics of iterations again, once all samples of a session are known."""

from __future__ import annotations

from collections.abc import Container, Iterator

from wattio.errors import ResultError
from wattio.kinds.measurement import derive
from wattio.kinds.measurement.derive import Derived, Rulebook, View
from wattio.kinds.measurement.folder import MeasurementFolder
from wattio.results.runs import Recorded, Verdict


def settle_up(folder: MeasurementFolder) -> None:
    """Keep the samples of sessions that have ended, and judge their iterations by all of them."""
    ended = folder.recordings()
    if not ended:
        return
    for session in ended:
        folder.keep(session)
    put_derived(folder, ended)
    # Not before: a kill until here leaves the recording, and it is settled up the next time.
    for session in ended:
        folder.drop_recording(session)


def put_derived(folder: MeasurementFolder, sessions: Container[str] | None = None) -> None:
    """Derive what the catalog holds of iterations again; of all, or of some sessions."""
    with folder.catalog() as catalog:
        for item, found in derived(folder, Rulebook.of_folder(folder), sessions):
            catalog.replace_derived(item.identity, found.verdicts, found.by_phase)


def unreadable(folder: MeasurementFolder, item: Recorded, error: ResultError) -> Verdict:
    """What is said of an iteration whose record cannot be read."""
    # Where the folder lies now is no part of the verdict.
    why = str(error).replace(f"{folder.raw(item.identity)}/", "")
    return Verdict("INVALID", f"UNREADABLE: {why}")


def derived(
    folder: MeasurementFolder, book: Rulebook, sessions: Container[str] | None = None
) -> Iterator[tuple[Recorded, Derived]]:
    """Metrics and verdicts of iterations again, from what the folder keeps of them.

    Of those in the given sessions, or of all; one session's samples at a time are in memory. Raises
    ResultError.
    """
    pairs = []
    for item in folder.iterations():
        try:
            pairs.append((item, folder.record(item.identity)))
        except ResultError as error:
            yield item, Derived({}, [unreadable(folder, item, error)], [])
    for session in sorted({record.session for _, record in pairs}):
        if sessions is not None and session not in sessions:
            continue
        recorded = folder.samples(session)
        view: View | None = None
        for item, record in pairs:
            if record.session != session:
                continue
            # The facts are the same for all iterations of a session.
            view = view or View(record.meters, recorded, book, folder.events(session))
            results = derive.read_results(folder.raw(record.identity), record)
            yield item, derive.derive(record, results, view, book)
