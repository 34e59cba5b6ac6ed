// Command nnp tells as whom it runs. In its image it belongs to root and has the setuid bit, so this shows whether a
// container may gain privileges.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Printf("Effective uid: %d\n", os.Geteuid())
}
