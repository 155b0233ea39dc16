// What `tools/h2spec` builds, and go.mod pins. No program: a file that nothing compiles.
//go:build tools

package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
