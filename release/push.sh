#!/usr/bin/env bash
# Pushes a release to a registry, all or nothing: `make push`. Every image and chart is pushed by
# digest, without a tag, and signed there. Tags follow when the registry has everything and every
# signature verifies. If a tag fails, the others are removed.
#
#   release/push.sh FILES REGISTRY
#
# FILES contains a release in each of its folders amd64 and arm64. REGISTRY is HOST or HOST/PATH,
# with the user of `docker login`. release/signing.sh names the variables.
set -euo pipefail
# Two with image indexes, then two with charts, whose default image is the pushed one.
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
revision=$(git describe --always --dirty --abbrev=12 --exclude '*')
scratch=$(mktemp -d) keys=$scratch
declare -A tagged
is_complete=

die() {
  echo "push: $*" >&2
  exit 1
}

# tag_of NAME: prints the digest of a tag, or nothing if there is no such tag. Fails if the registry
# does not say.
tag_of() {
  "$crane" digest "$1" 2> "$scratch/crane.log" ||
    grep --quiet --extended-regexp 'MANIFEST_UNKNOWN|NAME_UNKNOWN|status code 404' "$scratch/crane.log"
}

# A push that fails, or is interrupted, leaves no tag. The rest has no name, and the registry's
# garbage collection removes it.
clean_up() {
  local name
  [[ -n $is_complete ]] || for name in "${!tagged[@]}"; do
    [[ $(tag_of "$name") != "${tagged[$name]}" ]] || "$crane" delete "$name" 2> /dev/null || true
    [[ $(tag_of "$name" || echo unknown) == "" ]] || echo "push: $name may stay: remove this tag" >&2
  done
  rm -rf "$scratch"
}
trap clean_up EXIT
source release/signing.sh

# quietly COMMAND: runs it, and shows its output only if it fails.
quietly() { "$@" > "$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }; }

# is_new REPOSITORY DIGEST: whether the version has no tag yet. Fails if it has other content.
is_new() {
  local name=$registry/$1:$version found
  found=$(tag_of "$name") || die "$name: $(tail -n 1 "$scratch/crane.log")"
  [[ -n $found ]] || return 0
  [[ $found == "$2" ]] || die "$name exists, and is $found: a release never changes, so set another version"
  return 1
}

# pack_chart NAME IMAGE_DIGEST DEMO_DIGEST: packs a chart whose image is the pushed one.
pack_chart() {
  local folder=$scratch/charts
  rm -rf "$folder"
  cp --recursive --dereference charts "$folder"
  sed -i -e "s#^  registry: localhost\$#  registry: $registry#" \
    -e "s#^  digest: \"\"\$#  digest: $2#" -e "s#^    digest: \"\"\$#    digest: $3#" \
    "$folder"/*/values.yaml "$folder"/*/charts/*/values.yaml
  quietly "$helm" package --destination "$folder" "$folder/$1"
  release/chart.py "$folder/$1-$version.tgz" "$scratch"
}

# layout KIND NAME FILE...: writes the artifact NAME, and prints its digest and those of its parts.
layout() { release/layout.py "$1" "$scratch/layouts/$2" "${@:3}"; }

# sign REPOSITORY DIGEST: signs it, and states how it was made.
sign() {
  "$cosign" sign "${signing[@]}" --recursive "$registry/$1@$2"
  "$cosign" attest "${signing[@]}" --type slsaprovenance1 --predicate "$scratch/provenance" \
    "$registry/$1@$2"
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
layout image baton "$revision" "$files"/{amd64,arm64}/baton-"$version"-linux-*.image.tar > "$scratch/image"
layout image baton-demo "$revision" "$files"/{amd64,arm64}/baton-demo-"$version"-linux-*.image.tar > "$scratch/demo"
mapfile -t image < "$scratch/image"
mapfile -t demo < "$scratch/demo"
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
  "$cosign" attest "${signing[@]}" --type cyclonedx \
    --predicate "$files/$architecture/baton-$version.cdx.json" "$registry/baton@$digest"
  verify baton "$digest" cyclonedx
done
for name in "${repositories[@]}"; do
  verify "$name" "${digests[$name]}" slsaprovenance1
done

for name in "${new[@]}"; do
  is_new "$name" "${digests[$name]}" || continue # since the first look
  tagged["$registry/$name:$version"]=${digests[$name]}
  "$crane" tag "$registry/$name@${digests[$name]}" "$version"
done
is_complete=1
for name in "${repositories[@]}"; do
  echo "$registry/$name:$version@${digests[$name]}"
done
