#!/bin/sh
# Reads what the writer left; its first attempt is careless and is told so.
brief=$(cat)
case $brief in
  *'"feedback":null'*) echo "looks fine" > docs/review.md ;;
  *) echo "approved: $(wc -w < docs/notes.md) words" > docs/review.md ;;
esac
