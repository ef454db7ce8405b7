#!/usr/bin/env bash
# Pushes a release to a registry, all or nothing: `make push`. Every image and chart goes up by
# digest, which no tag names, and is signed there. Only when the registry has everything, and every
# signature verifies, do tags appear. If a tag fails, the others are removed.
#
#   release/push.sh FILES REGISTRY
#
# FILES is a folder with the releases amd64 and arm64, each a folder. REGISTRY is a host, and perhaps
# a path. Its user is that of `docker login`. release/signing.sh names the variables.
set -euo pipefail
# Two with indexes of images, and then two with charts, whose default image is the pushed one.
readonly repositories=(baton-demo baton charts/baton-sidecar charts/baton)
files=$(realpath "$1") registry=$2
[[ ! -f ${KEY:-} ]] || KEY=$(realpath "$KEY")
cd "$(dirname "$0")/.."
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
crane=$(release/tools.sh crane)
tests/servers/charts/build.sh
helm=$PWD/.cache/charts/helm4
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
scratch=$(mktemp -d) keys=$scratch
tagged=()

die() {
  echo "push: $*" >&2
  exit 1
}

# A push that fails leaves no tag. The rest has no name, and the registry's garbage collection
# removes it.
clean_up() {
  local status=$? name
  rm -rf "$scratch"
  [[ $status == 0 ]] || for name in "${tagged[@]}"; do
    "$crane" delete "$name" 2> /dev/null && continue
    # The registry may have refused the tag itself.
    ! "$crane" digest "$name" > /dev/null 2>&1 || echo "push: $name stays: remove this tag" >&2
  done
}
trap clean_up EXIT
source release/signing.sh

# quietly COMMAND: runs it, and shows its output only if it fails.
quietly() { "$@" > "$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }; }

# is_new REPOSITORY DIGEST: whether the version has no tag yet. Fails if it has other content.
is_new() {
  local name=$registry/$1:$version found
  if found=$("$crane" digest "$name" 2> "$scratch/crane.log"); then
    [[ $found == "$2" ]] || die "$name exists, and is $found: a release never changes, so set another version"
    return 1
  fi
  grep --quiet --extended-regexp 'MANIFEST_UNKNOWN|NAME_UNKNOWN|404' "$scratch/crane.log" ||
    die "$name: $(tail -n 1 "$scratch/crane.log")"
}

# pack_chart NAME IMAGE_DIGEST DEMO_DIGEST: packs a chart whose image is the pushed one.
pack_chart() {
  local folder=$scratch/charts
  rm -rf "$folder"
  cp --recursive --dereference charts "$folder"
  sed -i -e "s#^  registry: localhost\$#  registry: $registry#" -e "s#^  digest: \"\"\$#  digest: $2#" \
    -e "s#^    digest: \"\"\$#    digest: $3#" "$folder"/*/values.yaml "$folder"/*/charts/*/values.yaml
  quietly "$helm" package --destination "$folder" "$folder/$1"
  release/chart.py "$folder/$1-$version.tgz" "$scratch"
}

# layout KIND NAME FILE...: writes the artifact NAME, and prints its digest and those of its parts.
layout() { release/layout.py "$1" "$scratch/layouts/$2" "${@:3}"; }

# sign REPOSITORY DIGEST: signs it, and states how it was made.
sign() {
  "$cosign" sign "${signing[@]}" --recursive "$registry/$1@$2"
  "$cosign" attest "${signing[@]}" --type slsaprovenance1 --predicate "$scratch/provenance" "$registry/$1@$2"
}

# verify REPOSITORY DIGEST TYPE...: what a user does.
verify() {
  local name=$registry/$1@$2 type
  quietly "$crane" validate --remote "$name"
  quietly "$cosign" verify "${verifying[@]}" "$name"
  for type in "${@:3}"; do
    quietly "$cosign" verify-attestation "${verifying[@]}" --type "$type" "$name"
  done
}

release/provenance.py push "$SOURCE" "$(git rev-parse HEAD)" > "$scratch/provenance"

# Everything is made here, before the registry changes.
mapfile -t image < <(layout image baton "$files"/*/baton-"$version"-linux-*.image.tar)
mapfile -t demo < <(layout image baton-demo "$files"/*/baton-demo-"$version"-linux-*.image.tar)
declare -A digests=([baton]=${image[0]} [baton-demo]=${demo[0]})
for chart in baton baton-sidecar; do
  pack_chart $chart "${image[0]}" "${demo[0]}"
  digests[charts/$chart]=$(layout chart charts/$chart "$scratch/$chart-$version.tgz")
done
new=()
for name in "${repositories[@]}"; do
  ! is_new "$name" "${digests[$name]}" || new+=("$name")
done
[[ ${#new[@]} != 0 ]] || { echo "push: $registry has this release already"; exit; }

for name in "${repositories[@]}"; do
  "$crane" push "$scratch/layouts/$name" "$registry/$name@${digests[$name]}"
  sign "$name" "${digests[$name]}"
done
for line in "${image[@]:1}"; do
  read -r digest architecture <<< "$line"
  "$cosign" attest "${signing[@]}" --type cyclonedx --predicate "$files/$architecture/baton-$version.cdx.json" "$registry/baton@$digest"
  verify baton "$digest" cyclonedx
done
for name in "${repositories[@]}"; do
  verify "$name" "${digests[$name]}" slsaprovenance1
done

for name in "${new[@]}"; do
  tagged+=("$registry/$name:$version")
  "$crane" tag "$registry/$name@${digests[$name]}" "$version"
done
for name in "${repositories[@]}"; do
  echo "$registry/$name:$version@${digests[$name]}"
done
