# The sidecar in an empty image: one static binary, no shell, nobody's user by number.
#
#   docker build -t baton .                                   the sidecar
#   docker build -t baton-demo --target demo .                the demo's application and ledger
#
# Where no registry can be reached, BUILDER names a local image with Rust and a C compiler.
ARG BUILDER=docker.io/library/rust:1.95-slim-bookworm

FROM ${BUILDER} AS build
WORKDIR /source
COPY Cargo.toml Cargo.lock build.rs rust-toolchain.toml ./
COPY src src
COPY tests tests
COPY README.md ./
ARG REVISION=unknown
# A binary that needs no library of the image it runs in. The target is named so that build scripts, which have to be
# dynamic, are not linked that way too.
ENV BATON_REVISION=${REVISION} RUSTFLAGS="-C target-feature=+crt-static"
RUN target="$(rustc -vV | sed -n 's/^host: //p')" \
 && cargo build --locked --release --target "$target" --bin baton --example ledger \
 && mkdir -p /image /demo \
 && cp "target/$target/release/baton" /image/baton \
 && cp "target/$target/release/examples/ledger" /demo/ledger

FROM scratch AS demo
COPY --from=build /demo/ledger /ledger
USER 65532:65532
ENTRYPOINT ["/ledger"]

FROM scratch
ARG REVISION=unknown
LABEL org.opencontainers.image.title="baton" \
      org.opencontainers.image.description="Leader election beside your program" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image/baton /baton
USER 65532:65532
ENTRYPOINT ["/baton"]
