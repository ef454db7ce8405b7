//! What is done to nodes, and to the API server: one case after another, since each disturbs whatever else runs.
