--- Programs from npm for specs: spec/support/clients.

local shell = require "shell"

local npm = {}

-- One for make test and make asan.
local AT = shell.root .. "/build/clients"
local PATH = 'export PATH="$PATH:/usr/local/bin"; '

-- Runs a shell script; nil unless it succeeds.
local function try(script)
    return shell.run(PATH .. script).status == 0
end

local installed

---Installs the packages of spec/support/clients/package.json in build/, once; other
---processes wait meanwhile.
---@return string? directory nil: npm, node 20 or the registry cannot be reached
function npm.install()
    if installed == nil then
        installed = try(([[
            mkdir -p %s && cd %s && exec 9>lock && flock 9 || exit 1
            cp %s/spec/support/clients/* . || exit 1
            command -v node npm >/dev/null || exit 1
            node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || exit 1
            [ node_modules -nt package.json ] && [ -f done ] && cmp -s package.json done && exit 0
            npm install --silent --no-audit --no-fund >$OUT 2>$ERR || exit 1
            cp package.json done; touch node_modules]]):format(AT, AT, shell.root)) and AT or false
    end
    return installed or nil
end

---A node of version 22 or later: that of the system, else one from npm.
---@return string? path nil: there is none
function npm.node22()
    local at = AT .. "/node22"
    if try [[node -e 'process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)']] then
        return "node"
    elseif try(([[
        [ -x %s/node_modules/node/bin/node ] && exit 0
        mkdir -p %s && cd %s && echo '{}' >package.json
        npm install --silent --no-audit --no-fund node@22 >$OUT 2>$ERR]]):format(
        at, at, at)) then
        return at .. "/node_modules/node/bin/node"
    end
end

---Runs a shell script with node's programs in its path.
---@param script string see shell.run
---@return {status: integer, out: string, err: string}
function npm.run(script)
    return shell.run(PATH .. script)
end

return npm
