// Package faces is the room of what people and programs see of the operations: pages, an HTTP API with its
// client, tools for agents (MCP), and the live picture in a terminal.
//
// It imports the operations and the rooms below them; only the programs import it. Start reading in web/web.go: its routes.
package faces
