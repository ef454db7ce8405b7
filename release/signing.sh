# Sourced by the scripts that sign. Sets `$cosign`, and its options to sign and to verify. Writes
# the public key into the folder `$keys`, and no signature to a public log.
#
#   KEY=file               the private key
#   COSIGN_PASSWORD=word   its password
#   SOURCE=URL             where the sources are
: "${KEY:?set KEY to the private key for the signatures, as cosign takes it}"
: "${SOURCE:?set SOURCE to the URL of the sources}"
if [[ -f $KEY && -z ${COSIGN_PASSWORD+set} && -t 0 ]]; then
  # cosign would ask for each signature.
  read -rsp "Password of $KEY: " COSIGN_PASSWORD
  echo >&2
  export COSIGN_PASSWORD
fi
cosign=$(release/tools.sh cosign)
signing=(--key "$KEY" --yes --tlog-upload=false --use-signing-config=false)
verifying=(--key "$keys/key.pub" --insecure-ignore-tlog=true)
"$cosign" public-key --key "$KEY" > "$keys/key.pub"
