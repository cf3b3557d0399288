#!/bin/sh
# An agent: it reads a brief as JSON on standard input, changes files in its
# directory, and ends with status 0. What it changed is its work.
brief=$(cat)
requirement=$(printf %s "$brief" | sed -E 's/.*"requirement":"(([^"\]|\\.)*)".*/\1/; s/\\n/ /g; s/\\(.)/\1/g')
printf '# A page\n\n%s\n' "$requirement" > page.md
echo '{"summary": "A page."}' > "$MAESTRO_RESULT"
