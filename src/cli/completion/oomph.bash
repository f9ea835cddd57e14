# Completion of oomph for bash 4 or later: eval "$(oomph completions bash)"

_oomph() {
    # bash splits at = and :, oomph does not: put the words together again, and remember where each
    # began. What stands before the cursor's part of a word stays on the line.
    local rest=${COMP_LINE} part words=() began=() i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $rest != [[:space:]]* ]]; then
            words[-1]+=$part
        else
            rest=${rest#"${rest%%[![:space:]]*}"}
            words+=("$part")
            began+=("$i")
        fi
        rest=${rest#"$part"}
    done
    local typed=${words[-1]} split=""
    if ((began[-1] != COMP_CWORD)); then
        part=${COMP_WORDS[COMP_CWORD]}
        [[ $part == [=:]* ]] && part=""
        split=${typed%"$part"}
        typed=$part
    fi

    local oomph=${words[0]/#\~/$HOME} answer line
    COMPREPLY=()
    mapfile -t answer < <("$oomph" __complete "${words[@]:1}" 2>/dev/null)
    for line in "${answer[@]:1}"; do
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$split"}")
    done
    case ${answer[0]-} in
    files)
        compopt -o filenames 2>/dev/null
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$typed")
        ;;
    directories)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$typed")
        ;;
    command\ *)
        local ours=("${COMPREPLY[@]}") first=${began[${answer[0]#command } + 1]}
        COMPREPLY=()
        if declare -F _comp_command_offset >/dev/null; then
            _comp_command_offset "$first"
        elif declare -F _command_offset >/dev/null; then
            _command_offset "$first"
        elif ((first == COMP_CWORD)); then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -c -- "$typed"; [[ $typed == */* ]] && compgen -f -- "$typed")
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$typed")
        fi
        COMPREPLY+=("${ours[@]}")
        ;;
    esac
}

complete -F _oomph oomph
