// The path is a placeholder until the repository has an address. README.md says how to use it.
module baton.test/clients/go

go 1.23
