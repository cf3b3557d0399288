#!/bin/sh
# Writes a page on the requirement. When checks or reviewers send it back, it adds what they said.
brief=$(cat)
mkdir -p docs
[ -f docs/notes.md ] || printf '# Notes\n\n%s\n' "$(printf %s "$brief" | sed 's/.*"requirement":"\([^"]*\)".*/\1/')" > docs/notes.md
case $brief in
  *'"category":"rejected"'*) printf '\nSent back: %s\n' "$(printf %s "$brief" | sed 's/.*"output":"\([^"]*\)".*/\1/')" >> docs/notes.md ;;
esac
echo '{"summary": "One page of notes."}' > "$MAESTRO_RESULT"
