#!/bin/sh
# Writes the program. From the second attempt on, "feedback" in the brief says what
# was wrong with the one before: a model is told so, a script can look for it.
brief=$(cat)
case $brief in
  *'"feedback":null'*) echo "writing greet.sh" >&2 ;;
  *) echo "writing greet.sh anew" >&2 ;;
esac

cat > greet.sh <<'END'
echo "Hello, ${1:-world}!"
END
