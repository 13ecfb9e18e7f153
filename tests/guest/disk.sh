# Run in the guest: a file system on a disk of the storage target, which is ended in the middle of
# the work, on the host. Each fact is a line "key value"; tests/guest/test_target.py reads them.
#
# $CLIENT  kernel: the disk is the guest's own NBD client's. A target that is killed takes the disk
#          away, as a loss of power does: the work ends with errors, and a new disk is connected.
#          qemu: the disk is QEMU's client's, which waits for the target: the work does not notice.
# $FILESYSTEM, $HOST, $PORT, $EARS

fact() { echo "$1 $2"; }
fail() { echo "failed: $*"; dmesg | tail -30; exit 1; }
ask() { answer=$(echo "$1" | nc $HOST $EARS); [ "$answer" = done ] || fail "$1: $answer"; }
# Waits until the workers have written so many lines of their manifests.
written() { tries=6000; until [ "$(cat /tmp/manifest-$1-* 2>/dev/null | wc -l)" -ge $2 ]; do
    tries=$((tries - 1)); [ $tries -gt 0 ] || fail "no work is done"; usleep 20000; done; }

connections=0
connect() {
    if [ $CLIENT = qemu ]; then disk=/dev/vda; return; fi
    # What the kernel still knows of a disk that went away is not asked of the next one.
    disk=/dev/nbd$connections; connections=$((connections + 1))
    nbd-client $HOST $PORT $disk -connections 3 -timeout 60 > /tmp/said 2>&1 || fail "$(cat /tmp/said)"
}
disconnect() { [ $CLIENT = qemu ] || nbd-client -d $disk > /tmp/said 2>&1 || fail "$(cat /tmp/said)"; }
make_files() { case $FILESYSTEM in
    ext4) mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 $disk ;;
    xfs) mkfs.xfs -q $disk ;;
esac > /tmp/said 2>&1 || fail "mkfs: $(cat /tmp/said)"; }
put_on() { mount -t $FILESYSTEM -o discard $disk /mnt || fail mount; }
# Reads it as a stranger to its kernel: with the journal written back, nothing is to be mended.
inspect() { case $FILESYSTEM in
    ext4) fsck.ext4 -fn $disk ;;
    xfs) xfs_repair -n $disk ;;
esac > /tmp/said 2>&1 || fail "inspect: $(cat /tmp/said)"; }

# Files of a round, at four places at once, while what is free is trimmed.
begin() {
    workers=
    for place in 1 2 3 4; do
        files work /mnt/$1-$place /tmp/manifest-$1-$place $((16 * $1 + place)) $2 & workers="$workers $!"
    done
    rm -f /tmp/worked
    until [ -e /tmp/worked ]; do fstrim /mnt && echo; usleep 200000; done > /tmp/trimmed 2>/dev/null & trimmer=$!
}
# Waits until all of them are done, with this exit code.
finish() {
    for worker in $workers; do wait $worker; code=$?; [ $code = $1 ] || fail "work ended with $code"; done
    touch /tmp/worked; wait $trimmer
    trims=$((${trims:-0} + $(wc -l < /tmp/trimmed)))
}
look() {
    for manifest in /tmp/manifest-*; do
        files look /mnt/${manifest#/tmp/manifest-} $manifest > /tmp/said || fail "$manifest: $(cat /tmp/said)"
        fact looked "$(tail -1 /tmp/said)"
    done
}
# What a disk that is there gives reason to complain of.
complaints() { dmesg | grep -iE 'corrupt|EXT4-fs error|metadata I/O error|I/O error|BUG|Oops|blocked for'; }
look_again() {
    dmesg -c > /dev/null
    put_on; look; umount /mnt || fail umount
    inspect
    if complaints > /tmp/said; then fail "complaints: $(cat /tmp/said)"; fi
}

modprobe -a virtio_pci virtio_net virtio_blk nbd crc32c_generic $FILESYSTEM
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
connect; make_files
round=1
for lines in $LINES_BEFORE; do
    put_on
    if [ $CLIENT = kernel ]; then
        begin $round 65535; written $round $lines; ask kill
        # With several connections, what was under way would be tried again until -timeout.
        disconnect
        finish 3
        umount /mnt || fail umount
        connect
        look_again
    else
        begin $round 150; written $round $lines; ask restart
        finish 0
        umount /mnt || fail umount
        look_again
    fi
    fact round $round
    round=$((round + 1))
done

# The plain story: all of it is there after an orderly end of everybody.
put_on
begin $round 80; finish 0
look
umount /mnt || fail umount
inspect
disconnect; ask restart; connect
look_again
disconnect
fact trims $trims
fact round plain
