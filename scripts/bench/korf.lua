--- Solves instances of the 15-puzzle of Korf 1985 (table 1) by idastar with the Manhattan distance,
--- in Lua callbacks, and compares the lengths to the published ones (`make bench`).
---
---     lua5.4 scripts/bench/korf.lua [MILLIONS [SECONDS]]
---
--- takes those for which the paper reports up to that many million nodes (default 2), each for up
--- to SECONDS of wall time (default 120).

local search = require "ponder.search"

local MILLIONS, SECONDS = tonumber(arg[1] or 2), tonumber(arg[2] or 120)

-- Board (square by square, 0 is the empty one), moves, nodes that the paper generated.
local INSTANCES = [[
    edf7bc95602148a3 57 276361933; d54a9c8e23710fb6 55 15300442; e782dba49c50361f 59 565994203;
    5ca7fbe0821d3496 56 62643179; 47eda39cb56f1280 56 11020325; e719c36f8b25a04d 52 32201660;
    2bf5d467c8a193e0 52 387138094; cbf380426d95e1a7 50 39118937; 3e9b5482dc67a1f0 46 1650696;
    db890f7a436e5c21 59 198758703; 59de637ca840f2b1 57 150346072; e19648c57230abdf 45 546344;
    3652a0fe14dc98b7 46 11861705; 7681b5ea349df20c 59 1369596778; db4c189f65e273a0 62 543598067;
    1325a9f68edbc470 42 17984051; fe04b16d758932ac 66 607399560; 60ec1f9ab472835d 55 23711067;
    7b83e06f14d95c2a 46 1280495; 6cb3d79f2e8a4150 52 17954870; c8e6b47051af3d92 54 257064810;
    e391f845b7ad02c6 59 750746755; a93b0d2e56478f1c 49 15971319; 73ed41a85c9b2f60 54 42693209;
    b42710af69e83d5c 52 100734844; 573cfde80a96142b 58 226668645; e18f26039cad475b 53 306123421;
    de6c451093a2fb87 52 5934442; 9802f14e3a75bd6c 54 117076111; cf261e485370ad9b 47 2196593;
    c8fd1054632b97ea 50 2351811; ea94d6582c7013bf 59 661041936; e35fb6d90a2c4178 60 480637867;
    6b78d2541a39e0cf 52 20671552; 16ce32f845d907ba 55 47506056; c60473f1d98b2e5a 52 59802602;
    817cb0a59f6de234 58 280078791; 7f82d63cb04a951e 53 24492852; 904a1ef3c657bd82 49 19355806;
    b51e4ca027d39f68 54 63276188; 8da9b3f6012ec547 54 51501544; 45729ecd036b81fa 42 877823;
    bfed19a4362c7580 64 41124767; c906835e24b7a1fd 50 95733125; 3e97cf041856ba2d 51 6158733;
    8461ec2fda95370b 49 22119320; 6a1ef835d02749bc 47 1411294; 8b4673a92cfd015e 49 1905023;
    a024516cbd97f3e8 59 1809933698; c5db2a097843e6f1 53 63036422; a284f01ebd36975c 56 26622863;
    a80c37621e4bfd95 56 377141881; e9cdf48a02173b56 64 465225698; cb08a2df547369e1 56 220374385;
    d8e39107f54ac26b 41 927212; 3f25b647c910dea8 55 1199487996; 5b694dc082fa173e 50 8841527;
    50f8461eab397c2d 51 12955404; fe67a10bc84925d3 57 1207520464; bed123c4f795a680 66 3337690331;
    6d32b95a17ce840f 45 7096850; 46c0e29db83f7a15 57 23540413; 8a9be17fd40c6253 56 995472712;
    52e07863bcdf4a91 51 260054152; 7832ac46bd5f019e 47 18997681; b6ec351f80ad9742 61 1957191378;
    7124836baf05ecd9 50 252783878; 731dca52806bef49 51 64367799; 605f1e492d8abc73 53 109562359;
    f13c406528e9da7b 52 151042571; 570bc19af62384de 44 8885972; cfba45e0d7129836 56 1031641140;
    6ea5f8713420c9bd 49 3222276; ed4bf86907312ac5 56 1897728; e40a651392dfc78b 48 42772589;
    fa8306951edb72c4 57 126638417; 0d24ce69f1a3b587 54 18918269; 3ed64f895ca0271b 53 10907150;
    0197bd53ec4286af 42 540860; b0f8dc35a146e972 57 132945856; d09cb635f81a4e27 53 9982569;
    ea21d98b736cf540 62 5506801123; c39145a26bf0e7d8 49 65533432; f8a70ce15963db42 55 106074303;
    47da1296c8e530bf 44 2725456; 605abc921743e8df 45 2304426; 95bad02186ec473f 52 64926494;
    f2cbed9513870a64 65 6009130748; b174ad389e0f652c 54 166571097; 5471bcefad862093 50 7171137;
    9752efcab3618d04 57 602886858; 32790fc46b5e8da1 57 1101072541; d9e6c81234075abf 46 1599909;
    57b80e9dac3f6142 53 1337340; 436d7f90a58b2c1e 50 7115967; 17fe2649cbd3085a 49 12808564;
    9e578f12a4d6c0b3 44 1002927; 0b3c52198aef74d6 54 103526883; 7f40a925cbd613e8 57 83477694;
    b4086a5dc7e3129f 54 67880056;
]]

local function distance(tile, square)
    return math.abs(tile // 4 - square // 4) + math.abs(tile % 4 - square % 4)
end

-- Where the empty square can move, and how a tile's distance changes as it moves.
local NEIGHBOURS, CHANGE = {}, {}
for square = 0, 15 do
    NEIGHBOURS[square] = {}
    for _, step in ipairs { -4, -1, 1, 4 } do
        local from = square + step
        if from >= 0 and from < 16 and (step % 4 == 0 or from // 4 == square // 4) then
            table.insert(NEIGHBOURS[square], from)
            for tile = 1, 15 do
                CHANGE[tile << 8 | from << 4 | square] =
                    distance(tile, square) - distance(tile, from)
            end
        end
    end
end

-- A state is {board, empty square, empty square before, distance}; a board has 4 bits a square.
local function expand(state)
    local board, empty, before, left = state[1], state[2], state[3], state[4]
    local states = {}
    for _, from in ipairs(NEIGHBOURS[empty]) do
        if from ~= before then
            local tile = board >> 4 * from & 15
            states[#states + 1] = { board ~ tile << 4 * from ~ tile << 4 * empty, from, empty,
                left + CHANGE[tile << 8 | from << 4 | empty] }
        end
    end
    return states
end

local function read(digits)
    local board, empty, left = 0, nil, 0
    for square = 0, 15 do
        local tile = tonumber(digits:sub(square + 1, square + 1), 16)
        board = board | tile << 4 * square
        if tile == 0 then
            empty = square
        else
            left = left + distance(tile, square)
        end
    end
    return { board, empty, -1, left }
end

print("15-puzzle: moves (published), nodes (published), CPU time")
local number, right, tried = 0, 0, 0
for digits, moves, nodes in INSTANCES:gmatch "(%x+) (%d+) (%d+);" do
    number = number + 1
    if tonumber(nodes) <= MILLIONS * 1e6 then
        local start = os.clock()
        local result = search.run {
            initial_state = read(digits), expand = expand,
            heuristic = function(state) return state[4] end,
            is_terminal = function(state) return state[4] == 0 end,
            search = "idastar", retain = "path", max_nodes = 4000000000,
            max_duration_ms = SECONDS * 1000,
        }
        local seconds = os.clock() - start
        local found = result.ok and tostring(#result.best_path - 1) or result.stop_reason
        tried, right = tried + 1, right + (found == moves and 1 or 0)
        print(("  %3d  %s (%s)  %9d (%9d)  %6.1f s  %7.0f nodes/s"):format(number, found, moves,
            result.stats.nodes, nodes, seconds, result.stats.nodes / seconds))
    end
end
print(("  %d of %d have the published length"):format(right, tried))
