# Completion of oomph for fish: oomph completions fish | source

function __oomph_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l oomph (string replace -r '^~' $HOME $words[1])
    set -l answer ($oomph __complete $words[2..] "$typed" 2>/dev/null)
    printf '%s\n' $answer[2..]
    set -l before (string match -r -- '^--[^=]*=' "$typed")
    set -l path (string replace -- "$before" '' "$typed")
    switch "$answer[1]"
        case files
            printf "$before%s\n" (__fish_complete_path "$path")
        case directories
            printf "$before%s\n" (__fish_complete_directories "$path")
        case 'command *'
            set -l first (math (string replace 'command ' '' $answer[1]) + 2)
            set -l line (string escape -- $words[$first..]) $typed
            complete -C (string join ' ' -- $line)
    end
end

complete -c oomph -e
complete -c oomph -f -k -a '(__oomph_complete)'
