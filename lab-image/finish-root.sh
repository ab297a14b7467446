#!/bin/sh
# The last step of a root image, run by mmdebstrap on the building machine: `finish-root.sh ROOT`.
# LAB_IMAGE is the folder of this script, OUT is where kernel and initramfs go.
set -eu
root=$1

# The kernel is unpacked, not installed: no initramfs-tools, no triggers. Since Debian 14 its image and
# its modules are packages of their own.
package=$(chroot "$root" apt-cache show linux-image-amd64 |
    sed -n 's/^Depends:.*\(linux-image-[0-9][^ ,]*\).*/\1/p' | sort -V | tail -n 1)
parts=$(chroot "$root" apt-cache depends "$package" |
    sed -n 's/^ *Depends: \(linux-\(binary\|modules\)-.*\)/\1/p' | tr '\n' ' ')
chroot "$root" sh -c "
    set -e
    mkdir /kernel
    cd /kernel
    apt-get -qq download $package $parts || apt-get -qq download $package $parts
    for deb in *.deb; do dpkg-deb -x \$deb .; done"
find "$root/kernel" -name 'vmlinuz*' -type f -exec mv {} "$OUT/vmlinuz" \;
if [ -d "$root/kernel/usr/lib/modules" ]; then
    cp -a "$root/kernel/usr/lib/modules" "$root/lib/"
else
    cp -a "$root/kernel/lib/modules" "$root/lib/"
fi
rm -rf "$root/kernel"
version=$(ls "$root/lib/modules")
sed -e '/^#/d' -e 's/^/^/' "$LAB_IMAGE/modules" >"$OUT/kept"
(
    cd "$root/lib/modules/$version/kernel"
    find . -name '*.ko*' | sed 's|^\./||' | grep -Evf "$OUT/kept" | xargs -r rm -f
)
rm "$OUT/kept"
[ "$SUITE" != trixie-localio ] || "$LAB_IMAGE/build-localio" "$root" "$version"
chroot "$root" depmod "$version"

# The initramfs holds busybox and the modules that find the root disk, in the order of their needs.
tree=$OUT/initrd-tree
mkdir -p "$tree/bin" "$tree/modules" "$tree/proc" "$tree/dev" "$tree/root"
cp "$root/bin/busybox" "$tree/bin/"
install -m 755 "$LAB_IMAGE/initrd-init" "$tree/init"
number=10
chroot "$root" modprobe -S "$version" -D -a virtio_pci virtio_blk ext4 crc32c_generic 2>/dev/null |
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$OUT/order"
while read -r module; do
    number=$((number + 1))
    case $module in
    *.xz) "$root/bin/busybox" unxz -c <"$root$module" ;;
    *) cat "$root$module" ;;
    esac >"$tree/modules/$number.ko"
done <"$OUT/order"
rm "$OUT/order"
(cd "$tree" && find . | "$root/bin/busybox" cpio -o -H newc) >"$OUT/initrd" 2>/dev/null
rm -rf "$tree"

install -m 755 "$LAB_IMAGE/lab-init" "$root/sbin/lab-init"
for script in lab-nfsd lab-export lab-tls lab-krb5; do
    install -m 755 "$LAB_IMAGE/$script" "$root/usr/local/sbin/$script"
done
mkdir -p "$root/root/.ssh" "$root/etc/dropbear" "$root/mnt/nfs" "$root/export"
chmod 700 "$root/root/.ssh"
# dropbear's own path has no sbin in it.
echo 'export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' >"$root/root/.bashrc"
chroot "$root" dropbearkey -t ed25519 -f /etc/dropbear/key >/dev/null 2>&1
{
    echo '127.0.0.1 localhost'
    echo '10.77.0.254 host'
    echo '10.77.0.1 server'
    for i in $(seq 16); do echo "10.77.0.$((10 + i)) client$i"; done
} >"$root/etc/hosts"
# The building machine's name server is not reached from the laboratory: a name that isn't above
# would be waited for, such as by exportfs for each client.
: >"$root/etc/resolv.conf"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/var/cache/apt/archives/*.deb
