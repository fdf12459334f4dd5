#!/usr/bin/env bash
# Opens the explorer, `loadline plan --serve`, in a headless Chromium and holds the page to its promises: see
# web/browser. Needs a Chromium (Debian's package chromium, or CHROMIUM=path). Screenshots go to .cache/peers/explorer.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers/explorer
chromium=${CHROMIUM:-$(command -v chromium chromium-browser google-chrome | head -n 1 || true)}
if [[ -z $chromium ]]; then
	echo "no Chromium: install one (apt-get install chromium) or name it with CHROMIUM=path" >&2
	exit 1
fi
mkdir -p "$work"
export CGO_ENABLED=0
(cd "$root" && go build -o "$work/loadline" ./cmd/loadline)
(cd "$root/web/browser" && go build -o "$work/browser" .)
"$work/browser" -loadline "$work/loadline" -chromium "$chromium" -out "$work"
