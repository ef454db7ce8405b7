# The sidecar in an empty image: one static binary, the public certificate authorities, no shell, nobody's user by number.
#
#   make image                              this image and the demo's, with docker or podman
#   docker build .                          the sidecar
#   docker build --target demo .            the demo's application and ledger
#   docker build --platform linux/arm64 .   for the other architecture: amd64 and arm64 are known
#
# Where no registry can be reached, BUILDER names a local image with Rust, gcc and ca-certificates.
ARG BUILDER=rust:1.95.0-slim-bookworm

# Of the machine that builds, always: for another architecture it compiles across, which emulation would take an hour for.
FROM --platform=${BUILDPLATFORM} ${BUILDER} AS build
ARG TARGETARCH
RUN case "${TARGETARCH}" in \
      amd64) cpu=x86_64 ;; \
      arm64) cpu=aarch64 ;; \
      *) echo "there is no image for '${TARGETARCH}': name linux/amd64 or linux/arm64 by --platform" >&2; exit 2 ;; \
    esac; \
    echo "${cpu}-unknown-linux-gnu" > /target; \
    test -d "$(rustc --print sysroot)/lib/rustlib/$(cat /target)/lib" || rustup target add "$(cat /target)" || exit; \
    command -v "${cpu}-linux-gnu-gcc" \
    || { apt-get update && apt-get install -y --no-install-recommends \
           "gcc-$(echo "${cpu}" | tr _ -)-linux-gnu" "libc6-dev-${TARGETARCH}-cross"; }

# A binary that needs no library of the image it runs in. The target is named even where it is the builder's own, so that
# build scripts, which have to be dynamic, are not linked that way too. Relocations take 340 KB unless they are packed.
ENV RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs" \
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=x86_64-linux-gnu-gcc \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
WORKDIR /source
COPY Cargo.toml Cargo.lock build.rs README.md ./
COPY crates crates
COPY src src
COPY examples/ledger examples/ledger
COPY tests/support tests/support
ARG REVISION=unknown
RUN --mount=type=cache,target=/source/target \
    BATON_REVISION="${REVISION}" \
    cargo build --locked --release --target "$(cat /target)" --bin baton --example ledger \
 && mkdir -p /sidecar/etc/ssl/certs /demo \
 && cp "target/$(cat /target)/release/baton" /sidecar/ \
 && cp "target/$(cat /target)/release/examples/ledger" /demo/ \
 && cp /etc/ssl/certs/ca-certificates.crt /sidecar/etc/ssl/certs/

FROM scratch AS demo
COPY --from=build /demo /
USER 65532:65532
ENTRYPOINT ["/ledger"]

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="baton" \
      org.opencontainers.image.description="Leader election beside your program" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /sidecar /
USER 65532:65532
ENTRYPOINT ["/baton"]
