#!/bin/sh
# Builds the Debian packages wattiod, wattio-target and wattio:
# packaging/debian/build.sh PROGRAMS WHEEL OUTDIR
#
# PROGRAMS is the folder of the static ones (packaging/build/static.sh), WHEEL the wheel, for this
# machine's architecture. wattio holds the Python packages that it needs, at the versions of uv.lock, because
# Debian has not all of them; it runs on the Python of the Debian that it is built on.
set -eu
programs=$1 wheel=$2
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

# service PACKAGE GUIDE CONFIGURATION UNIT...: a static program with its guide, its configuration and
# its units, which stay off until the administrator enables them.
service() {
    package=$1 guide=$2 configuration=$3
    shift 3
    tree=$stage/$package doc=/usr/share/doc/$package units=$stage/$package/usr/lib/systemd/system
    mkdir -p "$tree/DEBIAN" "$tree/etc" "$tree/usr/sbin" "$tree$doc/examples" "$units"
    install -m 755 "$programs/$package" "$tree/usr/sbin/$package"
    # What the head of a unit says of installing by hand is done; the rest lies elsewhere.
    moved='/^#   \(useradd\|install\|systemctl daemon-reload\)/d
        s#/usr/local/sbin/#/usr/sbin/#g; s#/usr/local/share/doc/#/usr/share/doc/#g'
    moved="$moved; s#\($package\.service\.d/ into\)#$doc/examples/\1#"
    for unit in "$@"; do
        sed "$moved" "$root/packaging/systemd/$unit" >"$units/$unit"
    done
    cp -r "$root/packaging/systemd/$package.service.d" "$tree$doc/examples"
    sed -i "$moved" "$tree$doc/examples/$package.service.d"/*.conf
    cp "$root/docs/$guide" "$tree$doc"
    cp "$root/$configuration" "$tree/etc/$package.toml"
    echo "/etc/$package.toml" >"$tree/DEBIAN/conffiles"
    papers "$package" 8 "$tree/usr/sbin/$package"
    completions "$package" "$programs/$package" completions
    for script in postinst prerm postrm; do
        install -m 755 "$here/$package/$script" "$tree/DEBIAN/$script"
    done
}

# wattio: an environment of its own, which its packages do not leave.
mkdir -p "$stage/wattio/usr/bin" "$stage/wattio/usr/lib"
home=$stage/wattio/usr/lib/wattio
/usr/bin/python3 -m venv --without-pip --symlinks "$home"
python=$home/bin/python3
"$uv" export --quiet --frozen --no-default-groups --extra meters --extra models --no-emit-project \
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

service wattiod wattiod.md packaging/examples/block-device.toml wattiod.service
examples=$stage/wattiod/usr/share/doc/wattiod/examples
cp "$root"/packaging/examples/*.toml "$root"/packaging/examples/*.sql "$examples"
cp "$root/docs/wattiod-keys.md" "$stage/wattiod/usr/share/doc/wattiod"
cp "$root/packaging/grafana/wattiod.json" "$examples/grafana.json"
cp "$root/packaging/prometheus/wattiod.rules.yml" "$examples"
control wattiod "" "governor that saves a storage server's power within a latency bound" <<'END'
Watches the latency of a storage server and takes away processor cores and
frequency that the load does not need. Let "wattiod init" propose a
configuration, look with "wattiod observe", then enable the unit:
systemctl enable --now wattiod.
END

service wattio-target target.md packaging/examples/wattio-target/wattio-target.toml \
    wattio-target.service wattio-target.socket
control wattio-target adduser "block server of crash-safe volumes over NBD" <<'END'
Serves volumes on files or block devices, one or two that mirror each other, to
clients of the network block device protocol. What they flushed survives a power
failure; checksums detect damage. Make a volume, edit
/etc/wattio-target.toml, then enable the units:
systemctl enable --now wattio-target.socket wattio-target.service.
END

for package in wattiod wattio-target wattio; do
    file=$outdir/${package}_${version}_$architecture.deb
    dpkg-deb --root-owner-group -Zzstd --build "$stage/$package" "$file" >/dev/null
    echo "$file"
done
