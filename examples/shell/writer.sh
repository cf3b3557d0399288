#!/bin/sh
# Writes a page on the requirement, and decides on its language.
brief=$(cat)
echo "writing notes.md" >&2
mkdir -p docs
printf '# Notes\n\n%s\n' "$(printf %s "$brief" | sed 's/.*"requirement":"\([^"]*\)".*/\1/')" > docs/notes.md
echo '{"summary": "One page of notes.", "decisions": {"language": "en"}}' > "$MAESTRO_RESULT"
