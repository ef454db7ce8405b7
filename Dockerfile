# Builds the sidecar's image: one static binary, the public certificate authorities, no shell, and
# a numeric user.
#
#   make image                              build this image and the demo's with docker or podman
#   docker build .                          build the sidecar
#   docker build --target demo .            build the demo's application and ledger
#   docker build --platform linux/arm64 .   build for another architecture: amd64 or arm64
#
# Without a registry, set BUILDER to a local image with Rust, gcc, and ca-certificates.
#
# The digest pins the image, so a new image with this tag does not change a release. To update it:
# crane digest rust:1.95.0-slim-bookworm
ARG BUILDER=rust:1.95.0-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082

# The build stage runs on the build machine's own architecture and cross-compiles, because a build
# under emulation takes an hour.
FROM --platform=${BUILDPLATFORM} ${BUILDER} AS tools
ARG TARGETARCH
# Debian's cross compilers and C libraries, pinned because the program contains parts of them. If
# BUILDER has a compiler for the target, the build uses it. To update them, in Debian bookworm:
# apt-cache madison gcc-aarch64-linux-gnu libc6-dev-arm64-cross
ARG GCC=4:12.2.0-3
ARG LIBC=2.36-8cross1
RUN case "${TARGETARCH}" in \
      amd64) cpu=x86_64 ;; \
      arm64) cpu=aarch64 ;; \
      *) echo "no image for '${TARGETARCH}': pass --platform linux/amd64 or linux/arm64" >&2; exit 2 ;; \
    esac; \
    echo "${cpu}-unknown-linux-gnu" > /target; \
    test -d "$(rustc --print sysroot)/lib/rustlib/$(cat /target)/lib" \
    || rustup target add "$(cat /target)" || exit; \
    command -v "${cpu}-linux-gnu-gcc" \
    || { apt-get update && apt-get install -y --no-install-recommends \
           "gcc-$(echo "${cpu}" | tr _ -)-linux-gnu=${GCC}" "libc6-dev-${TARGETARCH}-cross=${LIBC}"; }

# What the image contains besides crates, for the bill of materials: the toolchain's std, the packages
# of the libraries that the program links statically, and the certificate authorities.
FROM tools AS listing
RUN cpu="$(cut -d- -f1 /target)"; \
    package() { dpkg-query --show --showformat 'package ${Package} ${Version}\n' "$1"; }; \
    owner() { dpkg --search "$(readlink -f "$1")" | cut -d: -f1; }; \
    { echo "std $(rustc --version | cut -d' ' -f2)"; \
      package "$(owner "$("${cpu}-linux-gnu-gcc" --print-file-name=libc.a)")"; \
      package "$(owner "$("${cpu}-linux-gnu-gcc" --print-libgcc-file-name)")"; \
      package ca-certificates; \
      sha256sum /etc/ssl/certs/ca-certificates.crt | sed 's/^/file /'; } > /inventory

FROM scratch AS inventory
COPY --from=listing /inventory /

FROM tools AS build
# Link statically, because the image has no libraries. Cargo gets an explicit --target even for the
# builder's own architecture, so that these flags do not apply to build scripts, which must be
# dynamic. Packed relocations save 340 KB.
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
# Two builds: an example has the features of the tests' dependencies, which would enlarge the
# sidecar.
RUN --mount=type=cache,target=/source/target \
    BATON_REVISION="${REVISION}" \
    cargo build --locked --release --target "$(cat /target)" --bin baton \
 && cp "target/$(cat /target)/release/baton" / \
 && cargo build --locked --release --target "$(cat /target)" --example ledger \
 && mkdir -p /sidecar/etc/ssl/certs /demo \
 && mv /baton /sidecar/ \
 && cp "target/$(cat /target)/release/examples/ledger" /demo/ \
 && cp /etc/ssl/certs/ca-certificates.crt /sidecar/etc/ssl/certs/

FROM scratch AS demo
COPY --from=build /demo /
USER 65532:65532
ENTRYPOINT ["/ledger"]

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
# The URL of the sources.
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="baton" \
      org.opencontainers.image.description="Leader election beside your program" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /sidecar /
# No common user, such as 65532 of distroless images: processes of one user can signal each other.
USER 40404:40404
ENTRYPOINT ["/baton"]
