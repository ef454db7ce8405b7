// Replace the path by the repository's when the module is published.
module baton.test/clients/go

go 1.23
