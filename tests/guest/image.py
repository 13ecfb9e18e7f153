"""Builds what a guest boots from: kernel, modules, ACPI tables, initramfs.

The slow pieces lie in `.cache/guest`, named after the versions or sources they come from, so that
an update of either makes new ones:

- `kernel-<version>-<hash>/`: Debian's kernel, the modules of `MODULES`, the headers to build ours;
- `<hash>-fake_power.ko`, `<hash>-ssdt.aml`, `<hash>-dcmi.so`: built from sources in this folder.

Nothing is installed on the host. Debian builds its kernel with one version of gcc and its headers
ask for that one by name (gcc-12 on Debian 12), so the host should be of the same Debian release;
another gcc than the kernel's makes modules that may not load.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import lzma
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from guest.cpio import Archive

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "guest"
CPUS_MAX = 8  # as many as ssdt.asl knows

# What a guest may load with modprobe, besides what these need themselves.
MODULES = (
    "acpi-cpufreq",
    "acpi_power_meter",
    "cpufreq_conservative",
    "cpufreq_ondemand",
    "cpufreq_powersave",
    "cpufreq_userspace",
    "crc32c_generic",
    "ext4",
    "ipmi_devintf",
    "ipmi_si",
    "loop",
    "nbd",
    "nfsv4",
    "null_blk",
    "orangefs",
    "raid1",
    "scsi_debug",
    "sd_mod",
    "virtio_blk",
    "virtio_net",
    "virtio_pci",
    "xfs",
)

# Programs that building and booting call, and the Debian package of each.
NEEDED = {
    "apt-get": "apt",
    "busybox": "busybox-static",
    "dpkg": "dpkg",
    "gcc": "gcc",
    "iasl": "acpica-tools",
    "ipmi_sim": "openipmi",
    "make": "make",
    "qemu-system-x86_64": "qemu-system-x86",
}
NEEDED_HEADERS = {Path("/usr/include/OpenIPMI/serv.h"): "libopenipmi-dev"}

XZ_MAGIC = b"\xfd7zXZ\x00"

Content = bytes | str | Path


class ImageError(Exception):
    """A piece of the guest cannot be built; the message says which and why."""


def missing() -> list[str]:
    """The Debian packages that building and booting a guest needs and this machine lacks."""
    programs = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    headers = [package for header, package in NEEDED_HEADERS.items() if not header.exists()]
    return sorted(programs + headers)


@dataclass(frozen=True)
class Kernel:
    """Debian's kernel, unpacked."""

    folder: Path
    release: str

    @property
    def image(self) -> Path:
        """The uncompressed kernel: unpacking a compressed one takes emulated processors long."""
        return self.folder / "vmlinux"

    @property
    def modules(self) -> Path:
        """The folder of the modules and their modules.dep."""
        return self.folder / "lib" / "modules" / self.release

    @property
    def headers(self) -> Path:
        """Where modules for this kernel are built."""
        return self.folder / "usr" / "src" / f"linux-headers-{self.release}"


@dataclass(frozen=True)
class Image:
    """The pieces of a guest that do not change from run to run."""

    cache: Path
    kernel: Kernel
    fake_power: Path
    dcmi: Path

    def acpi_table(self, cpus: int) -> Path:
        """The compiled ssdt.asl for a guest of so many processors."""
        if not 1 <= cpus <= CPUS_MAX:
            raise ImageError(f"a guest has 1 to {CPUS_MAX} processors, not {cpus}")
        with _locked(self.cache):
            return _acpi_table(self.cache, cpus)

    def initramfs(
        self, script: str, programs: Iterable[Path] = (), files: Mapping[str, Content] | None = None
    ) -> bytes:
        """The root file system: what every guest has, the script, the programs, the files.

        Programs go to /usr/local/bin, with the shared libraries they need. The keys of `files` are
        absolute paths in the guest; a `Path` is read from the host.
        """
        archive = Archive()
        for folder in ("proc", "sys", "dev", "run", "tmp", "root", "mnt", "etc"):
            archive.folder(folder)
        self._add_modules(archive)
        _add_busybox(archive)
        archive.file("init", (HERE / "init").read_bytes(), 0o755)
        archive.file("script", script.encode())
        libraries: set[Path] = set()
        for program in programs:
            archive.file(f"usr/local/bin/{program.name}", program.read_bytes(), 0o755)
            libraries.update(_shared_libraries(program))
        for library in sorted(libraries):
            archive.file(str(library), library.read_bytes(), 0o755)
        for path, content in (files or {}).items():
            archive.file(path, _bytes(content))
        return archive.finish()

    def _add_modules(self, archive: Archive) -> None:
        folder = Path("lib", "modules", self.kernel.release)
        dependencies = (self.kernel.modules / "modules.dep").read_text()
        for name in _dependencies(dependencies):
            archive.file(str(folder / name), (self.kernel.modules / name).read_bytes())
        archive.file(str(folder / "extra/fake_power.ko"), self.fake_power.read_bytes())
        dependencies += "extra/fake_power.ko:\n"
        archive.file(str(folder / "modules.dep"), dependencies.encode())


def build(cache: Path = CACHE) -> Image:
    """Build what is not in the cache yet. Raises ImageError.

    Downloads about 85 MB when the cache has not got the kernel that apt would install now.
    """
    with _locked(cache):
        kernel = _kernel(cache)
        return Image(cache, kernel, _fake_power(cache, kernel), _dcmi(cache))


# The pieces. Each finds its result in the cache, or makes it beside and renames it.


def _kernel(cache: Path) -> Kernel:
    package, version = _dependency("linux-image-amd64")
    release = package.removeprefix("linux-image-")
    folder = cache / f"kernel-{version}-{_digest(*MODULES)}"
    if not folder.exists():
        with _scratch(cache) as scratch:
            _download(scratch, [package, *_header_packages(release)])
            _unpack(scratch, release)
            scratch.rename(folder)
        for old in cache.glob("kernel-*"):
            if old != folder:
                shutil.rmtree(old)
    return Kernel(folder, release)


def _fake_power(cache: Path, kernel: Kernel) -> Path:
    source = HERE / "fake_power"
    compiler = _call("gcc", "--version")
    key = _digest(kernel.folder.name, compiler, *_texts(source.iterdir()))
    built = cache / f"{key}-fake_power.ko"
    if not built.exists():
        with _scratch(cache) as scratch:
            shutil.copytree(source, scratch / "module")
            _call("make", "-C", kernel.headers, f"M={scratch / 'module'}", "modules")
            (scratch / "module" / "fake_power.ko").rename(built)
    return built


def _dcmi(cache: Path) -> Path:
    source = HERE / "ipmi_sim" / "dcmi.c"
    built = cache / f"{_digest(*_texts([source]))}-dcmi.so"
    if not built.exists():
        with _scratch(cache) as scratch:
            library = scratch / "dcmi.so"
            _call("gcc", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o", library, source)
            library.rename(built)
    return built


def _acpi_table(cache: Path, cpus: int) -> Path:
    source = HERE / "ssdt.asl"
    built = cache / f"{_digest(str(cpus), *_texts([source]))}-ssdt.aml"
    if not built.exists():
        with _scratch(cache) as scratch:
            plain = scratch / "ssdt.asl"
            count = f"-DPROCESSOR_COUNT={cpus}"
            _call("gcc", "-E", "-P", "-x", "c", count, source, "-o", plain)
            _call("iasl", "-p", scratch / "ssdt", plain)
            (scratch / "ssdt.aml").rename(built)
    return built


# Debian's kernel.


def _dependency(package: str) -> tuple[str, str]:
    """The concrete kernel package that a meta-package stands for now, and its version."""
    record = _call("apt-cache", "show", "--no-all-versions", package)
    found = re.search(r"^Depends: (\S+) \(= ([^)]+)\)", record, re.MULTILINE)
    if found is None:
        raise ImageError(f"apt knows no version of {package}; run apt-get update")
    return found[1], found[2]


def _header_packages(release: str) -> list[str]:
    package = f"linux-headers-{release}"
    depends = _call("apt-cache", "depends", "--important", package)
    needed = re.findall(r"Depends: (linux-(?:headers|kbuild)-\S+)", depends)
    return [package, *needed]


def _download(folder: Path, packages: list[str]) -> None:
    try:
        _call("apt-get", "download", "-q", *packages, cwd=folder)
    except ImageError as error:
        raise ImageError(f"{error}\n(apt's lists may be old: run apt-get update)") from error


def _unpack(folder: Path, release: str) -> None:
    """Unpack the packages in a folder, and keep what a guest and its module's build need."""
    for package in sorted(folder.glob("*.deb")):
        _call("dpkg", "-x", package, folder)
        package.unlink()
    compressed = (folder / "boot" / f"vmlinuz-{release}").read_bytes()
    (folder / "vmlinux").write_bytes(_decompress(compressed))
    shutil.rmtree(folder / "boot")
    _pick_modules(folder, release)
    # The headers name the ones they build on by where the package would have installed them.
    makefile = folder / "usr" / "src" / f"linux-headers-{release}" / "Makefile"
    beside = "include $(dir $(lastword $(MAKEFILE_LIST)))../"
    makefile.write_text(makefile.read_text().replace("include /usr/src/", beside))


def _decompress(vmlinuz: bytes) -> bytes:
    """The ELF kernel inside a bootable one: an xz stream between boot code and padding."""
    start = vmlinuz.find(XZ_MAGIC)
    if start < 0:
        raise ImageError("the kernel is not compressed with xz: teach image.py its format")
    return lzma.LZMADecompressor().decompress(vmlinuz[start:])


def _pick_modules(folder: Path, release: str) -> None:
    """Keep the modules of `MODULES` and what they need; write their modules.dep."""
    modules = folder / "lib" / "modules" / release
    _call("busybox", "depmod", "-b", folder, release)
    every = _dependencies((modules / "modules.dep").read_text())
    paths = {Path(path).stem: path for path in every}
    lacking = [name for name in MODULES if name not in paths]
    if lacking:
        raise ImageError(f"the kernel has no module {', '.join(lacking)}")
    chosen = {path for name in MODULES for path in (paths[name], *every[paths[name]])}
    whole = modules.with_name("whole")
    modules.rename(whole)
    for path in chosen:
        (modules / path).parent.mkdir(parents=True, exist_ok=True)
        (whole / path).rename(modules / path)
    lines = [f"{path}: {' '.join(every[path])}\n" for path in sorted(chosen)]
    (modules / "modules.dep").write_text("".join(lines))
    shutil.rmtree(whole)


def _dependencies(modules_dep: str) -> dict[str, list[str]]:
    """Each module's path and the paths of those it needs, from a modules.dep's text."""
    lines = (line.partition(":") for line in modules_dep.splitlines())
    return {path: needed.split() for path, _, needed in lines}


# Programs of the host.


def _add_busybox(archive: Archive) -> None:
    program = Path(shutil.which("busybox") or "busybox")
    archive.file("bin/busybox", program.read_bytes(), 0o755)
    for name in _call(program, "--list").split():
        if name != "busybox":
            archive.link(f"bin/{name}", "busybox")


def _shared_libraries(program: Path) -> list[Path]:
    """What a program loads, by the paths the loader looks at; nothing for a static one."""
    listing = subprocess.run(("ldd", program), capture_output=True, text=True)
    if "not found" in listing.stdout:
        raise ImageError(f"{program} needs libraries that are not there:\n{listing.stdout}")
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", listing.stdout)]


def _bytes(content: Content) -> bytes:
    if isinstance(content, Path):
        return content.read_bytes()
    return content.encode() if isinstance(content, str) else content


def _call(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise ImageError(f"{words} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


# The cache.


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _texts(files: Iterable[Path]) -> list[str]:
    return [file.read_text() for file in sorted(files)]


@contextlib.contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One builder at a time: tests run in several processes."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _scratch(cache: Path) -> Iterator[Path]:
    """A folder in the cache's file system, gone at the end unless it was renamed."""
    folder = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
    folder.chmod(0o755)  # apt's own user writes downloads
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
