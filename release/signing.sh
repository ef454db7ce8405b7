# Read by the scripts that sign. Sets `$cosign`, and its options to sign and to verify. Signatures
# are written to no public log. Writes the public key into the folder `$keys`.
#
#   KEY=file               the private key
#   COSIGN_PASSWORD=word   its password
#   SOURCE=URL             where the sources are
: "${KEY:?set KEY to the private key for the signatures, as cosign takes it}"
: "${SOURCE:?set SOURCE to the URL of the sources}"
cosign=$(release/tools.sh cosign)
signing=(--key "$KEY" --yes --tlog-upload=false --use-signing-config=false)
verifying=(--key "$keys/key.pub" --insecure-ignore-tlog=true)
"$cosign" public-key --key "$KEY" > "$keys/key.pub"
