--- `ponder completion bash|zsh|fish`: completion of the command line, from the tables of --help.

local args = require "ponder.args"
local cli = require "ponder.cli"

local SHELLS = { "bash", "fish", "zsh" }

local completion = { words = SHELLS }

completion.summary = "print a script that completes command lines (bash, zsh, fish)"

completion.usage = [[
ponder completion bash|zsh|fish

Prints what makes a shell complete ponder's commands and options:

  bash, zsh   source <(ponder completion bash), in ~/.bashrc or ~/.zshrc
  fish        ponder completion fish > ~/.config/fish/completions/ponder.fish]]

local function quote(text)
    return "'" .. text:gsub("'", [['\'']]) .. "'"
end

-- Calls f(flag, rule) for each option of a command, in the order of its help.
local function each_option(command, f)
    for _, section in ipairs(command.sections) do
        for _, name in ipairs(section.names) do
            f(args.flag(name), command.rules[name])
        end
    end
end

local write = {}

-------------------------------------------------------------------------------

local BASH = [[
# bash completion of ponder
_ponder() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= files=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W %s -- "$cur"))
        return # a script, where no command fits
    fi
    case "${COMP_WORDS[1]} $before" in
%s
    esac
    case "${COMP_WORDS[1]}" in
%s
    *) return ;;
    esac
    case "$cur" in
    -*) ;;
    *) words=${words##*--help} ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [ -n "$files" ] || compopt +o default 2>/dev/null
}
complete -o default -F _ponder ponder
]]

function write.bash(commands)
    local names, values, words = {}, {}, {}
    for i, command in ipairs(commands) do
        names[i] = command.name
        local flags = {}
        each_option(command, function(flag, rule)
            flags[#flags + 1] = flag
            if rule.enum then
                values[#values + 1] = ('    %s) COMPREPLY=($(compgen -W %s -- "$cur")); return ;;')
                    :format(quote(command.name .. " " .. flag), quote(table.concat(rule.enum, " ")))
            elseif rule.value then
                values[#values + 1] = ("    %s) %sreturn ;;"):format(
                    quote(command.name .. " " .. flag),
                    rule.files and "" or "compopt +o default 2>/dev/null; ")
            end
        end)
        words[i] = ("    %s) words=%s%s ;;"):format(command.name,
            quote(("%s --help %s"):format(table.concat(flags, " "),
                table.concat(command.words, " "))), command.files and " files=1" or "")
    end
    names[#names + 1] = "--help --version"
    return BASH:format(quote(table.concat(names, " ")), table.concat(values, "\n"),
        table.concat(words, "\n"))
end

-------------------------------------------------------------------------------

local ZSH = [[
#compdef ponder
_ponder() {
    local -a commands=(
%s
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        _files -g '*.lua'
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
%s
    *) _files ;;
    esac
}
if [ "$funcstack[1]" = _ponder ]; then _ponder "$@"; else compdef _ponder ponder; fi
]]

local function zsh_help(text)
    return (text:gsub("[%[%]:\\]", "\\%0"))
end

function write.zsh(commands)
    local names, cases = {}, {}
    for i, command in ipairs(commands) do
        names[i] = "        " .. quote(command.name .. ":" .. zsh_help(command.summary))
        local words = { "    " .. command.name .. ") _arguments" }
        each_option(command, function(flag, rule)
            local value = ""
            if rule.enum then
                value = (":%s:(%s)"):format(rule.value, table.concat(rule.enum, " "))
            elseif rule.value then
                value = (":%s:%s"):format(zsh_help(rule.value), rule.files and "_files" or "")
            end
            words[#words + 1] = quote(("%s[%s]%s"):format(flag, zsh_help(rule.help or ""), value))
        end)
        words[#words + 1] = "'--help[say more]'"
        if command.files then
            words[#words + 1] = "'*:file:_files'"
        elseif command.words[1] then
            words[#words + 1] = quote("*:word:(" .. table.concat(command.words, " ") .. ")")
        end
        cases[i] = table.concat(words, " \\\n        ") .. " ;;"
    end
    return ZSH:format(table.concat(names, "\n"), table.concat(cases, "\n"))
end

-------------------------------------------------------------------------------

local function fish_quote(text)
    return "'" .. text:gsub("[\\']", "\\%0") .. "'"
end

function write.fish(commands)
    local lines = { "# fish completion of ponder" }
    local function add(condition, rest)
        lines[#lines + 1] = ("complete -c ponder -n %s %s"):format(fish_quote(condition), rest)
    end
    for _, command in ipairs(commands) do
        local here = "__fish_seen_subcommand_from " .. command.name
        add("__fish_use_subcommand", ("-a %s -d %s"):format(command.name,
            fish_quote(command.summary)))
        each_option(command, function(flag, rule)
            local long = flag:match("^%-%-(.*)$")
            local value = rule.enum and "-x -a " .. fish_quote(table.concat(rule.enum, " ")) .. " "
                or rule.value and (rule.files and "-r " or "-x ") or ""
            add(here, ("%s %s%s"):format(long and "-l " .. long or "-s " .. flag:sub(2), value,
                "-d " .. fish_quote(rule.help or "")))
        end)
        add(here, "-l help -d 'say more'")
        if command.words[1] then
            add(here, "-f -a " .. fish_quote(table.concat(command.words, " ")))
        elseif not command.files then
            add(here, "-f")
        end
    end
    return table.concat(lines, "\n") .. "\n"
end

-------------------------------------------------------------------------------

---@param arguments string[]
---@return integer status
function completion.run(arguments)
    local opts, operands = args.parse("ponder completion", arguments, {})
    if not opts then
        return cli.usage_error(operands)
    end
    local made = #operands == 1 and write[operands[1]]
    if not made then
        return cli.usage_error("ponder completion: expected bash, zsh or fish")
    end
    io.write(made(cli.commands()))
    return 0
end

return completion
