// Command nfpm writes the Debian package of a configuration of nfpm into a folder. Sources of the
// package's files are relative to the working directory.
//
//	nfpm CONFIG FOLDER
//
// It is nfpm without its other formats, whose modules the release does not need.
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("nfpm: ")
	if len(os.Args) != 3 {
		log.Fatal("usage: nfpm CONFIG FOLDER")
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func pack(path, folder string) error {
	config, err := nfpm.ParseFile(path)
	if err != nil {
		return err
	}
	info, err := config.Get("deb")
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(folder, deb.Default.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	if err := deb.Default.Package(info, file); err != nil {
		return err
	}
	return file.Close()
}
