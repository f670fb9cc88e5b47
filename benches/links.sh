#!/usr/bin/env bash
# Measures the emulated link against TCP over a shaped pair of network devices, and writes
# results/links.{json,md}. Needs root, ip and tc; without them it says so and does nothing.
#
# Two network namespaces are joined by a veth pair. A token bucket (tbf) in front of either end gives
# the bandwidth; netem gives a delay where the kernel has it, and where it has not, there is none but
# the pair's own. Everything is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
    echo "links.sh needs root, ip and tc; nothing was measured" >&2
    exit 0
fi

# A debug build measures the same: the time goes by in the kernel.
program=${LINKS:-$(cargo test --quiet --workspace --bench links --no-run --message-format=json |
    sed -n 's/.*"name":"links".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)}

# Neither end needs much of a core, but a machine that others use may let them wait for one, and that
# is not the wire's doing.
first=
if command -v chrt >/dev/null && chrt --fifo 1 true 2>/dev/null; then first="chrt --fifo 1"; fi

sender=lynx-links-a-$$ receiver=lynx-links-b-$$
folder=$(mktemp -d)
server=
clean_up() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
    ip netns del "$sender" 2>/dev/null || true
    ip netns del "$receiver" 2>/dev/null || true
    rm -r "$folder"
}
trap clean_up EXIT

# Starts a receiver by the command given; when it listens, its address is in `address`.
start_receiver() {
    mkfifo "$folder/ready"
    "$@" >"$folder/ready" &
    server=$!
    read -r address <"$folder/ready"
    rm "$folder/ready"
}

stop_receiver() {
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
}

ip netns add "$sender" && ip netns add "$receiver"
if ! ip link add lynx0 netns "$sender" type veth peer name lynx1 netns "$receiver"; then
    echo "this kernel has no veth pairs; nothing was measured" >&2
    exit 0
fi
for end in "$sender lynx0 10.79.0.1" "$receiver lynx1 10.79.0.2"; do
    read -r space device address <<<"$end"
    ip -n "$space" addr add "$address/24" dev "$device"
    ip -n "$space" link set "$device" up
    # The usual control of congestion, whatever this machine's is.
    ip -n "$space" route change 10.79.0.0/24 dev "$device" scope link src "$address" congctl cubic
done

# Shapes both directions: bits a second, burst in bytes, delay in microseconds. Says in `delay` what
# delay there is.
shape() {
    delay=$3
    local space device
    for end in "$sender lynx0" "$receiver lynx1"; do
        read -r space device <<<"$end"
        tc -n "$space" qdisc replace dev "$device" root handle 1: \
            tbf rate "${1}bit" burst "${2}b" limit 64mb
        tc -n "$space" qdisc add dev "$device" parent 1:1 handle 10: \
            netem delay "${3}us" limit 100000 2>/dev/null || delay=
    done
}

# shellcheck disable=SC2086 # words of a command
start_receiver ip netns exec "$receiver" $first "$program" receive 10.79.0.2:0
count=0
# Bits a second, burst, delay.
for setting in "100000000 4000 1000" "300000000 12000 500" "1000000000 40000 200"; do
    read -r bits burst wanted <<<"$setting"
    shape "$bits" "$burst" "$wanted"
    count=$((count + 1))
    echo "measuring $((bits / 1000000)) Mbit/s" >&2
    # shellcheck disable=SC2086 # words of a command; no delay is no argument
    ip netns exec "$sender" $first "$program" send "$address" \
        "A veth pair shaped to $((bits / 1000000)) Mbit/s" "$bits" "$burst" $delay \
        >"$folder/$count.json"
done
stop_receiver

echo "measuring loopback" >&2
# shellcheck disable=SC2086 # words of a command
start_receiver $first "$program" receive 127.0.0.1:0
# shellcheck disable=SC2086 # words of a command
$first "$program" send "$address" "Loopback, two processes" >"$folder/loopback.json"
stop_receiver

"$program" report "$folder"/[0-9]*.json "$folder/loopback.json"
