/** A client of the Baton sidecar, which elects one leader among several processes. */
module baton.client {
    exports baton.client;
}
