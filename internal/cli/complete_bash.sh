# What follows is Maestro's own: it stands in for the package bash-completion.

# The words of the command line up to the cursor. Bash splits them at = and :, too;
# what stands without a space between belongs together again.
__maestro_init_completion()
{
    if declare -F _get_comp_words_by_ref >/dev/null; then
        COMPREPLY=()
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local rest=${COMP_LINE:0:COMP_POINT} i word apart
    COMPREPLY=() words=() cword=-1
    for ((i = 0; i <= COMP_CWORD; i++)); do
        apart=${rest%%[![:space:]]*}
        rest=${rest#"$apart"}
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=$rest
        rest=${rest#"$word"}
        if ((i > 0)) && [[ -z $apart && ( $word == [=:]* || ${words[cword]} == *[=:] ) ]]; then
            words[cword]+=$word
        else
            words[++cword]=$word
        fi
    done
    cur=${words[cword]}
    prev=
    ((cword == 0)) || prev=${words[cword - 1]}
}

# Files whose names end in one of the given endings, or directories with -d.
__maestro_filedir()
{
    if declare -F _filedir >/dev/null; then
        _filedir "$@"
        return
    fi
    local entry endings=${1-}
    compopt -o filenames 2>/dev/null
    while IFS= read -r entry; do
        if [[ -d ${entry/#~/$HOME} || -z $endings || ( $endings != -d && $entry == *.@(${endings%|}) ) ]]; then
            COMPREPLY+=("$entry")
        fi
    done < <(compgen -f -- "$cur")
}
