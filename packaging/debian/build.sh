#!/bin/sh
# Builds the Debian packages wattiod and wattio: packaging/debian/build.sh WATTIOD WHEEL OUTDIR
#
# WATTIOD is a static wattiod (packaging/build/static.sh), WHEEL the wheel, for this machine's
# architecture. wattio holds the Python packages that it needs, at the versions of uv.lock, because
# Debian has not all of them; it runs on the Python of the Debian that it is built on.
set -eu
wattiod=$1 wheel=$2
mkdir -p "$3"
outdir=$(cd "$3" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
uv=${UV:-uv}
architecture=$(dpkg --print-architecture)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/pyproject.toml")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022

# control PACKAGE DEPENDS SUMMARY < what is said at length
control() {
    mkdir -p "$stage/$1/DEBIAN"
    size=$(du -sk --exclude=DEBIAN "$stage/$1" | cut -f1)
    {
        echo "Package: $1"
        echo "Version: $version"
        echo "Architecture: $architecture"
        echo "Maintainer: The wattio contributors <wattio@localhost>"
        echo "Section: admin"
        echo "Priority: optional"
        echo "Installed-Size: $size"
        [ -z "$2" ] || echo "Depends: $2"
        echo "Description: $3"
        sed 's/^/ /'
    } >"$stage/$1/DEBIAN/control"
}

# completions PACKAGE COMMAND...: what the command prints for each shell goes where shells look.
completions() {
    package=$1
    shift
    for shell in bash zsh fish; do
        case $shell in
        bash) file=bash-completion/completions/$package ;;
        zsh) file=zsh/vendor-completions/_$package ;;
        fish) file=fish/vendor_completions.d/$package.fish ;;
        esac
        mkdir -p "$stage/$package/usr/share/$(dirname "$file")"
        "$@" "$shell" >"$stage/$package/usr/share/$file"
    done
}

# papers PACKAGE SECTION PROGRAM: licence, changes, manual page.
papers() {
    doc=$stage/$1/usr/share/doc/$1
    man=$stage/$1/usr/share/man/man$2
    mkdir -p "$doc" "$man"
    cp "$root/LICENSE" "$doc/copyright"
    gzip -9nc "$root/CHANGELOG.md" >"$doc/changelog.gz"
    "$python" "$here/manual.py" "$3" | gzip -9nc >"$man/$1.$2.gz"
}

# wattio: an environment of its own, which its packages do not leave.
mkdir -p "$stage/wattio/usr/bin" "$stage/wattio/usr/lib"
home=$stage/wattio/usr/lib/wattio
/usr/bin/python3 -m venv --without-pip --symlinks "$home"
python=$home/bin/python3
"$uv" export --quiet --frozen --no-default-groups --extra meters --no-emit-project \
    --project "$root" --output-file "$stage/requirements.txt" >/dev/null
"$uv" pip install --quiet --python "$python" --link-mode copy --require-hashes \
    --requirements "$stage/requirements.txt"
"$uv" pip install --quiet --python "$python" --link-mode copy --no-deps "$wheel"
rm -f "$home"/bin/activate* "$home"/bin/Activate* "$home/.gitignore"
find "$home/bin" -type f -delete
sed -i '/^command/d' "$home/pyvenv.cfg"
# Who runs it as root shall not leave files of his own in there.
"$python" -m compileall -q --invalidation-mode unchecked-hash -s "$stage/wattio" "$home/lib" || true
printf '#!/bin/sh\nexec /usr/lib/wattio/bin/python3 -m wattio.cli "$@"\n' >"$stage/wattio/usr/bin/wattio"
chmod 755 "$stage/wattio/usr/bin/wattio"
minor=$(/usr/bin/python3 -c 'import sys; print(sys.version_info.minor)')
papers wattio 1 wattio
completions wattio "$python" -m wattio.cli completion
control wattio "python3 (>= 3.$minor), python3 (<< 3.$((minor + 1)))" \
    "measures, models and cuts the energy that storage uses" <<'END'
Says what a power policy would save on a storage server's load, within a stated
latency bound, by simulation; measures storage systems with power meters.
END

# wattiod: one static file and its unit, which stays off until the administrator enables it.
mkdir -p "$stage/wattiod/usr/sbin" "$stage/wattiod/usr/lib/systemd/system" "$stage/wattiod/etc"
install -m 755 "$wattiod" "$stage/wattiod/usr/sbin/wattiod"
examples=$stage/wattiod/usr/share/doc/wattiod/examples
mkdir -p "$examples"
moved='/^#   install/d; s#/usr/local/sbin/#/usr/sbin/#g; s#/usr/local/share/doc/#/usr/share/doc/#g
s#^\# wattiod.service.d/ into#\# /usr/share/doc/wattiod/examples/wattiod.service.d/ into#'
sed "$moved" "$root/packaging/systemd/wattiod.service" >"$stage/wattiod/usr/lib/systemd/system/wattiod.service"
cp -r "$root/packaging/systemd/wattiod.service.d" "$root"/packaging/examples/*.toml "$examples"
cp "$root/packaging/grafana/wattiod.json" "$examples/grafana.json"
cp "$root/docs/wattiod.md" "$stage/wattiod/usr/share/doc/wattiod/wattiod.md"
cp "$root/packaging/examples/block-device.toml" "$stage/wattiod/etc/wattiod.toml"
papers wattiod 8 "$stage/wattiod/usr/sbin/wattiod"
completions wattiod "$wattiod" completions
control wattiod "" "governor that saves a storage server's power within a latency bound" <<'END'
Watches the latency of a storage server and takes away processor cores and
frequency that the load does not need. Edit /etc/wattiod.toml, look with
"wattiod observe", then enable the unit: systemctl enable --now wattiod.
END
echo /etc/wattiod.toml >"$stage/wattiod/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$here/wattiod/$script" "$stage/wattiod/DEBIAN/$script"
done

for package in wattiod wattio; do
    file=$outdir/${package}_${version}_$architecture.deb
    dpkg-deb --root-owner-group -Zzstd --build "$stage/$package" "$file" >/dev/null
    echo "$file"
done
