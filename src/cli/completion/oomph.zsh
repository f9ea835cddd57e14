#compdef oomph
# Completion of oomph for zsh: source <(oomph completions zsh), or as the file _oomph in a directory of $fpath.

_oomph() {
    local -a answer candidates
    local line
    answer=("${(@f)$("${(Q)words[1]/#\~/$HOME}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${(@)answer[2,-1]}"; do
        candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    (( $#candidates )) && _describe -t oomph oomph candidates
    case $answer[1] in
    files)
        compset -P '--*='
        _files
        ;;
    directories)
        compset -P '--*='
        _files -/
        ;;
    command\ *)
        local -i first=$(( ${answer[1]#command } + 1 ))
        shift first words
        (( CURRENT -= first ))
        _normal
        ;;
    esac
}

if [[ $funcstack[1] == _oomph ]]; then
    _oomph "$@"
else
    compdef _oomph oomph
fi
