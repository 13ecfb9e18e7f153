"""The PTDaemon dialogue: our client against our server, what cuts it, and what anybody may send."""

from __future__ import annotations

import contextlib
import itertools
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattio import clock
from wattio.errors import HostError, InputError
from wattio.meters import open_meter, ptd_dialogue
from wattio.meters.meter import Facts, MeterLost, MeterRefused, Reading
from wattio.meters.ptd_dialogue import Conversation, Sample, format_sample, parse_sample
from wattio.meters.ptdaemon_server import CLIENTS_MAX, Feed, Server, means


class Steady:
    """A meter that says 100 W, 101 W, ... every 10 ms."""

    def __init__(self) -> None:
        self.facts = Facts("steady:", "a steady meter", 0.01)
        self._power_w = itertools.count(100.0)

    def read(self) -> Reading:
        return Reading(*clock.now(), next(self._power_w))

    def close(self) -> None:
        pass


@contextlib.contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def wait_until_ready(feed: Feed, timeout_s: float) -> bool:
    """Wait for the first reading of a feed; False where none comes in time."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s and feed.trouble is None:
        if feed.means(0.0, 1e12, 1):
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def port() -> Iterator[int]:
    with contextlib.closing(Feed(Steady)) as feed:
        assert wait_until_ready(feed, 30.0)
        server = Server(feed, port=0)
        with serving(server):
            yield server.port


def test_the_client_reads_what_the_server_measures(port: int) -> None:
    with contextlib.closing(open_meter(f"ptdaemon://127.0.0.1:{port}?period=50 ms")) as meter:
        assert meter.facts.streams
        assert meter.facts.untried == "SPEC's own PTDaemon"
        assert "steady:" in meter.facts.what
        readings = [meter.read() for _ in range(4)]
    powers = [reading.power_w for reading in readings if reading.power_w is not None]
    assert len(powers) == 4
    assert powers[0] >= 100.0
    assert powers == sorted(powers)
    assert all(b.monotonic_ns > a.monotonic_ns for a, b in itertools.pairwise(readings))
    marks = [reading.mark for reading in readings if reading.mark is not None]
    assert len(marks) == 4
    assert all(b - a == pytest.approx(0.05, abs=0.002) for a, b in itertools.pairwise(marks))


def test_two_clients_have_measurements_of_their_own(port: int) -> None:
    name = f"ptdaemon://127.0.0.1:{port}?period=20 ms&amperes=Auto&volts=300"
    with contextlib.closing(open_meter(name)) as one, contextlib.closing(open_meter(name)) as two:
        assert one.read().power_w
        assert two.read().power_w
        one.close()
        assert two.read().power_w
        with pytest.raises(MeterLost, match="is closed"):
            list(iter(one.read, None))


class Peer(socketserver.StreamRequestHandler):
    """Answers from a script, then hangs up."""

    script: tuple[bytes, ...] = ()

    def handle(self) -> None:
        for answer in self.script:
            if not self.rfile.readline():
                return
            self.wfile.write(answer)


GREETING = (b"Hello, PTDaemon here!\r\n", b"WT310\r\n", b"Ranges,-1,-1.0,-1,-1.0\r\n")
BEGUN = (*GREETING, b"Starting untimed measurement\r\n")
SAMPLE = b"Time,01-02-2026 03:04:05.600,Watts,22.5,Volts,230,Amps,0.1,PF,0.9,Mark,wattio\r\n"


@contextlib.contextmanager
def peer(*script: bytes) -> Iterator[str]:
    handler = type("Scripted", (Peer,), {"script": script})
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    with serving(server):
        yield f"ptdaemon://127.0.0.1:{server.server_address[1]}?period=20 ms"


@pytest.mark.parametrize(
    ("script", "kind", "says"),
    [
        ((b"220 mail\r\n",), MeterRefused, "is not a PTDaemon; it answered '220 mail'"),
        ((*GREETING, b"Error, busy\r\n"), MeterRefused, "did not start measuring: 'Error, busy'"),
        ((GREETING[0],), MeterLost, "closed the connection|reset"),
        ((b"x" * 4000,), MeterLost, "an endless line"),
    ],
)
def test_what_the_other_side_says_at_the_start(
    script: tuple[bytes, ...], kind: type[Exception], says: str
) -> None:
    with peer(*script) as name, pytest.raises(kind, match=says):
        open_meter(name)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ((b"Last 2 samples\r\n" + SAMPLE,), "closed the connection|reset"),
        ((b"Last 1 samples\r\nTime,Watts\r\n",), "sent an invalid sample"),
        ((b"Last 999999 samples\r\n",), "did not send samples"),
        ((b"nonsense\r\n",), "did not send samples: 'nonsense'"),
        ((b"Last 1 samples\r\n" + SAMPLE.replace(b"22.5", b"-9"),), "reports -9 W; allowed: 0 to"),
    ],
)
def test_what_goes_wrong_later_is_a_loss(answers: tuple[bytes, ...], says: str) -> None:
    with peer(*BEGUN, *answers) as name:
        meter = open_meter(name)
        with pytest.raises(MeterLost, match=says):
            meter.read()
        meter.close()
        meter.close()


def test_samples_that_came_together_are_a_period_apart() -> None:
    with (
        peer(*BEGUN, b"Last 3 samples\r\n" + 3 * SAMPLE) as name,
        contextlib.closing(open_meter(name)) as meter,
    ):
        times = [meter.read().monotonic_ns for _ in range(3)]
    assert [b - a for a, b in itertools.pairwise(times)] == [20_000_000, 20_000_000]


def test_names_are_checked() -> None:
    for name, says in (
        ("ptdaemon:", "no host given"),
        ("ptdaemon://h?period=1 ms", "allowed is 10 ms to 1 h"),
        ("ptdaemon://h?amperes=1%0d%0aStop", "write Auto or a number"),
        ("ptdaemon://h?range=1", 'unknown key "range"'),
    ):
        with pytest.raises(InputError, match=says):
            open_meter(name)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(MeterLost, match=r"cannot be reached: (?!\[Errno)"):
        open_meter(f"ptdaemon://127.0.0.1:{free}")


def talk(port: int, sent: bytes) -> bytes:
    """Everything that the server answers to some bytes."""
    with socket.create_connection(("127.0.0.1", port), 30) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := client.recv(65_536):
                found += chunk
    return found


def test_the_dialogue_of_mlperf(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 30) as client, client.makefile("rw") as file:

        def ask(command: str) -> str:
            file.write(f"{command}\r\n")
            file.flush()
            return file.readline().strip()

        assert ask("Hello") == "Hello, PTDaemon here!"
        assert ask("Identify").startswith("wattio,version=")
        assert ask("RR") == "Ranges,-1,-1.0,-1,-1.0"
        assert ask("SR,A,Auto").startswith("Range A")
        assert ask("Go,20,0,test run").startswith("Starting")
        assert ask("Go,20,0").startswith("Error")
        assert ask("RL,*,*") == "Invalid number of parameters"
        found: list[Sample | None] = []
        deadline_s = time.monotonic() + 30
        while len(found) < 3 and time.monotonic() < deadline_s:
            count = ptd_dialogue.parse_count(ask("RL"))
            assert count is not None
            found += [parse_sample(file.readline()) for _ in range(count)]
        assert len(found) >= 3
        assert {sample.mark for sample in found if sample} == {"test_run"}
        assert ask("Stop").startswith("Stopping")
        assert float(ask("Watts").split(",")[1]) >= 100.0
        assert ask("Uncertainty") == "Uncertainty,-1"
        assert ask("DC-RL") == "Unknown command"


def test_a_line_is_bounded_and_so_are_the_clients(port: int) -> None:
    assert b"Error, a line is at most" in talk(port, b"x" * 5000)
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS_MAX):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            client.sendall(b"Hello\r\n")
            assert client.recv(100).startswith(b"Hello")
        assert talk(port, b"").startswith(b"Error, too many clients")


def test_a_port_that_is_taken_is_said(port: int) -> None:
    said = f"127.0.0.1:{port}: cannot listen"
    with contextlib.closing(Feed(Steady)) as feed, pytest.raises(HostError, match=said):
        Server(feed, port=port)


COMMANDS = ["hello", "RR", "RL", "Stop", "Watts", "Go,10,0,m", "SR,A,1", "Go,,", "Go,10,-1", "SR"]


@given(st.lists(st.sampled_from(COMMANDS) | st.text(max_size=40), max_size=20), st.data())
def test_nothing_that_is_said_breaks_a_conversation(lines: list[str], data: st.DataObject) -> None:
    now_s = [0.0]
    feed = [Reading(int(s * 1e9), s, 50.0) for s in range(1, 40)]
    talked = Conversation("it", lambda: now_s[0], lambda *span: means(feed, *span))
    for line in lines:
        now_s[0] += data.draw(st.floats(0, 1e6))
        answer = talked.answer(line)
        assert answer
        if (count := ptd_dialogue.parse_count(answer[0])) is not None:
            assert len(answer) == count + 1
            assert all(parse_sample(sample) for sample in answer[1:])


@given(st.text(max_size=120))
def test_no_text_breaks_the_parsers(text: str) -> None:
    parse_sample(text)
    parse_sample(f"Time,01-02-2026 03:04:05.600,Watts,{text}")
    ptd_dialogue.parse_count(text)


@given(sent=st.binary(max_size=200))
def test_no_bytes_break_the_server(sent: bytes, running_port: int) -> None:
    talk(running_port, sent)
    assert talk(running_port, b"Hello\r\n") == b"Hello, PTDaemon here!\r\n"


@pytest.fixture(scope="module")
def running_port() -> Iterator[int]:
    with contextlib.closing(Feed(Steady)) as feed:
        server = Server(feed, port=0)
        with serving(server):
            yield server.port


def test_samples_survive_their_line() -> None:
    sample = Sample(1_767_225_600.25, 22.5, "m")
    assert parse_sample(format_sample(sample)) == sample


def test_a_period_without_a_reading_is_left_out() -> None:
    readings = [Reading(at * 10**9, at, float(at)) for at in (1, 2, 3, 7)]
    found = means(readings, 0.0, 2.0, 4)
    assert [(one.at_s, one.power_w) for one in found] == [(2.0, 1.5), (4.0, 3.0), (8.0, 7.0)]
