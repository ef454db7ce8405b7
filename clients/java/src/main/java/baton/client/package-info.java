/** A client of the Baton sidecar. Start with {@link baton.client.Baton}. */
package baton.client;
