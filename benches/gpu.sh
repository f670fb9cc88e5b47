#!/usr/bin/env bash
# What a GPU says, within eight minutes and without a network or a toolchain there.
#
#   benches/gpu.sh build FOLDER    here: builds the programs to carry, through Vulkan, into FOLDER
#   benches/gpu.sh run FOLDER OUT  there: correctness, kernels, training; leaves JSON and logs in OUT
#
# The programs reach the GPU through Vulkan: the machine needs its driver and a loader,
# libvulkan.so.1, which may lie in FOLDER/lib. Set VK_DRIVER_FILES to the driver's .json file where
# the loader does not find it. SMALL=1 shrinks every size, to try the script on Mesa's lavapipe;
# ONLY="tests kernels" leaves the training out, here and there; PROFILE=device builds faster.
#
# Through CUDA instead: CubeCL's CUDA runtime downloads LLVM while it is built, so that build needs a
# network, and the CUDA toolkit's libraries where it runs. On such a machine
#
#   BACKEND=cuda benches/gpu.sh build FOLDER && BACKEND=cuda benches/gpu.sh run FOLDER OUT
#
# builds the same programs with the feature `cuda` in place of `vulkan`, which brings bf16 and more
# shared memory, and so larger tiles.
set -euo pipefail

backend="${BACKEND:-vulkan}"
profile="${PROFILE:-release}"
only="${ONLY:-tests kernels training}"
usage() { sed -n '2,5p' "$0"; exit 2; }
wants() { [[ " $only " == *" $1 "* ]]; }

build() {
    local folder="$1" target
    cd "$(dirname "$0")/.."
    mkdir -p "$folder"
    target="${CARGO_TARGET_DIR:-target}"
    # Cargo says where an executable lies; nothing else here ends like its answer.
    made() { sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1; }
    local kernels=(-p lynx-kernels --profile "$profile" --features "$backend")
    kernels+=(--no-run --message-format=json)
    cp "$(cargo test "${kernels[@]}" --test device | made)" "$folder/tests"
    cp "$(cargo bench "${kernels[@]}" --bench device | made)" "$folder/kernels"
    if wants training; then
        # The GPT through Burn: its backend for Vulkan is called wgpu here.
        cargo build --release --bin gpt --features "${backend/vulkan/wgpu}"
        cp "$target/release/gpt" "$folder/gpt"
    fi
    strip "$folder"/{tests,kernels,gpt} 2>/dev/null || true
    cp benches/gpu.sh "$folder/gpu.sh"
    ls -l "$folder"
}

run() {
    local folder out begin
    folder="$(cd "$1" && pwd)"
    mkdir -p "$2"
    out="$(cd "$2" && pwd)"
    begin=$SECONDS
    export LD_LIBRARY_PATH="$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export LYNX_REQUIRE_DEVICE=1 RUST_BACKTRACE=0
    local device=wgpu
    [[ "$backend" == cuda ]] && device=cuda:0

    # A step's name, its limit in seconds, and the command; the limits add up to 440 s.
    local -a results=()
    step() {
        local name="$1" limit="$2" status=0 from=$SECONDS
        shift 2
        printf '== %s (%s s)\n' "$name" "$((SECONDS - begin))"
        timeout "$limit" "$@" >"$out/$name.log" 2>&1 || status=$?
        tail -n 5 "$out/$name.log"
        results+=("{\"step\": \"$name\", \"status\": $status, \"seconds\": $((SECONDS - from))}")
        return "$status"
    }
    local failed=0

    if wants tests; then
        step tests 160 "$folder/tests" --test-threads 4 --nocapture || failed=1
    fi
    if wants kernels; then
        local -a sizes=()
        [[ -n "${SMALL:-}" ]] && sizes=(--small --rounds 3)
        step kernels 120 "$folder/kernels" "${sizes[@]}" --out "$out/kernels.json" || failed=1
    fi

    # The same run with fused modules, which on a GPU are composed of Burn's operations, and with
    # Burn's, where the program has both, and with everything retained and everything recomputed. The
    # order alternates by policy.
    local -a runs=()
    if wants training && [[ -x "$folder/gpt" ]]; then
        local -a model=(--layers 12 --width 768 --heads 12 --context 1024 --batch 8 --steps 40)
        [[ -n "${SMALL:-}" ]] && model=(--layers 2 --width 64 --heads 2 --context 64 --batch 2 --steps 4)
        local -a kinds=(default) flag=()
        "$folder/gpt" train --help 2>&1 | grep -q -e --modules && kinds=(lynx burn)
        local policy kind
        for policy in retain recompute; do
            for kind in "${kinds[@]}"; do
                local name="train-$kind-$policy" last=null
                flag=()
                [[ "$kind" != default ]] && flag=(--modules "$kind")
                step "$name" 40 "$folder/gpt" train --device "$device" --policy "$policy" \
                    "${model[@]}" "${flag[@]}" --eval-every 1000 --log-every 1 --sample 0 \
                    --out "$out/$name" || failed=1
                # The last line of the log of metrics is a JSON object itself.
                [[ -s "$out/$name/metrics.jsonl" ]] && last="$(tail -n 1 "$out/$name/metrics.jsonl")"
                runs+=("{\"modules\": \"$kind\", \"policy\": \"$policy\", \"last\": $last}")
            done
            [[ "${#kinds[@]}" == 2 ]] && kinds=("${kinds[1]}" "${kinds[0]}")
        done
    fi

    join() { local IFS=,; printf '%s' "$*"; }
    local gpu
    gpu="$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1 || true)"
    printf '{"gpu": "%s", "backend": "%s", "small": %s, "seconds": %s, "steps": [%s], "training": [%s]}\n' \
        "$gpu" "$backend" "$([[ -n "${SMALL:-}" ]] && echo true || echo false)" \
        "$((SECONDS - begin))" "$(join "${results[@]}")" "$(join "${runs[@]}")" >"$out/summary.json"
    cat "$out/summary.json"
    return "$failed"
}

case "${1:-}" in
    build) [[ $# -eq 2 ]] || usage; build "$2" ;;
    run) [[ $# -eq 3 ]] || usage; run "$2" "$3" ;;
    *) usage ;;
esac
