// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// A stand-in for a bridge that repeats the roots of a legacy tree on another chain. Everyone may
/// call it.
contract RootBridge {
    event RootAdded(uint256 root, uint128 timestamp);
    event RootHistoryExpirySet(uint256 newExpiry);

    error NoRootsSeen();
    error CannotOverwriteRoot();

    uint256 private newest;
    uint256 private expiry = 1 weeks;
    /// When each root arrived.
    mapping(uint256 => uint128) public rootHistory;

    function receiveRoot(uint256 root) external {
        if (rootHistory[root] != 0) revert CannotOverwriteRoot();
        newest = root;
        rootHistory[root] = uint128(block.timestamp);
        emit RootAdded(root, uint128(block.timestamp));
    }

    function setRootHistoryExpiry(uint256 newExpiry) external {
        expiry = newExpiry;
        emit RootHistoryExpirySet(newExpiry);
    }

    function latestRoot() external view returns (uint256) {
        if (newest == 0) revert NoRootsSeen();
        return newest;
    }

    function rootHistoryExpiry() external view returns (uint256) {
        return expiry;
    }
}
