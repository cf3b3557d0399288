// Package platform is the room of what is not Maestro's to invent: Temporal's client, HTTP servers,
// terminals, command lines, disks, logs.
//
// It imports core; every room above imports it. There is no place to start reading: each package stands for itself.
package platform
