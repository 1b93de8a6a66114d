// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// An ERC-20 token: the parts that move balances.
contract Coin {
    event Transfer(address indexed from, address indexed to, uint256 value);
    mapping(address => uint256) public balanceOf;

    constructor(uint256 supply) {
        balanceOf[msg.sender] = supply;
        emit Transfer(address(0), msg.sender, supply);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        balanceOf[msg.sender] -= value;
        balanceOf[to] += value;
        emit Transfer(msg.sender, to, value);
        return true;
    }
}

/// An ERC-721 token.
contract Bird {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    mapping(uint256 => address) public ownerOf;

    function mint(uint256 tokenId) external {
        require(ownerOf[tokenId] == address(0));
        ownerOf[tokenId] = msg.sender;
        emit Transfer(address(0), msg.sender, tokenId);
    }

    function transferFrom(address from, address to, uint256 tokenId) external {
        require(ownerOf[tokenId] == from && from == msg.sender);
        ownerOf[tokenId] = to;
        emit Transfer(from, to, tokenId);
    }
}

/// An ERC-1155 token.
contract Tools {
    event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value);
    event TransferBatch(
        address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values
    );
    mapping(uint256 => mapping(address => uint256)) public balances;

    function mint(uint256 id, uint256 value) external {
        balances[id][msg.sender] += value;
        emit TransferSingle(msg.sender, address(0), msg.sender, id, value);
    }

    function safeBatchTransferFrom(address from, address to, uint256[] calldata ids, uint256[] calldata values) external {
        require(from == msg.sender && ids.length == values.length);
        for (uint256 i = 0; i < ids.length; i++) {
            balances[ids[i]][from] -= values[i];
            balances[ids[i]][to] += values[i];
        }
        emit TransferBatch(msg.sender, from, to, ids, values);
    }
}

/// Events that no shipped ABI knows.
contract Diary {
    struct Place {
        string town;
        int64 metres;
    }

    event Noted(string indexed title, string text, Place[] places, uint256 mood);

    function note(string calldata title, string calldata text, Place[] calldata places, uint256 mood) external {
        emit Noted(title, text, places, mood);
    }
}
