//! The flags for routing to the leader.
//!
//! Pure. Start with [`RoutingFlags`].

use clap::Args;

/// The flags for routing, as typed.
#[derive(Debug, Default, Clone, Args)]
pub struct RoutingFlags {
    /// Service whose EndpointSlices NAME-ipv4 and NAME-ipv6 hold the leader's addresses [default:
    /// none]
    #[arg(
        long = "endpoint-slice",
        env = "BATON_ENDPOINT_SLICE",
        value_name = "NAME",
        help_heading = "Routing"
    )]
    pub slice: Option<String>,
    /// TCP port of the application, or NAME=PORT for each named port of the Service
    #[arg(
        long = "endpoint-port",
        env = "BATON_ENDPOINT_PORT",
        value_name = "PORTS",
        help_heading = "Routing"
    )]
    pub port: Option<String>,
    /// Addresses of this candidate for the Service's clients [default: the Pod's]
    #[arg(
        long = "endpoint-addresses",
        env = "BATON_ENDPOINT_ADDRESSES",
        value_name = "ADDRESSES",
        help_heading = "Routing"
    )]
    pub addresses: Option<String>,
}
